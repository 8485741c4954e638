"""Asks the server: connections, its tables, its binlog files, whether capture may trust it."""
