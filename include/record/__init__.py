"""Definitions of changes, their positions, versions, keys and encodings. No input or output in this layer."""
