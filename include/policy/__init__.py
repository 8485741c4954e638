"""Decides which tables, columns and values may leave."""
