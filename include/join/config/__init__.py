"""The configuration of a join: its file, checked against topics and schemas, and where it is declared."""
