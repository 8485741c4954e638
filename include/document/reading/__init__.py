"""Reads the source's database for documents: rows of one consistent moment, at a bounded rate."""
