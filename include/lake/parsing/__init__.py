"""Parsers: a message → what is kept of it, and the partition names that it belongs to."""
