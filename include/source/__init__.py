"""Capture: a MySQL or MariaDB server's changes into the log, exactly once."""
