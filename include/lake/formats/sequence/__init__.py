"""Hadoop SequenceFiles: their header, keys, codecs, blocks."""
