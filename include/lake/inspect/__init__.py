"""Answers operators and readers of the lake: where a record is, which objects to read, how far a group is."""
