"""A new generation of an index, filled from its topics beside the one that serves."""
