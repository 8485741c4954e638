"""What a join is: its file, checked against topics and schemas, and where it is declared."""
