"""Capture: a MySQL-family server's row binlog into change topics, whole transactions, exactly once."""
