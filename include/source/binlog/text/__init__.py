"""Statements that the binlog holds as text: which tables they change."""
