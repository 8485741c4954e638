"""Texts of rows that the server, Spark and Python make alike, and their hashes."""
