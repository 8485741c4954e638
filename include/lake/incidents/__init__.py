"""Opens and ends the lake's incidents: they tell a person what goes wrong while it runs."""
