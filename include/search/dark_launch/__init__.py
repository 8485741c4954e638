"""Dark launch: the index asked behind the database's back, before readers switch."""
