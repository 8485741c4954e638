"""Compares two copies of a table: sums of hashes by leaf, then the rows of leaves that differ."""
