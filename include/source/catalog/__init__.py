"""Holds together the server's description of a table, the filter policy and table maps."""
