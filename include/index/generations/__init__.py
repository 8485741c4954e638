"""Generations of an index behind its alias: made, filled, compared, promoted, dropped."""
