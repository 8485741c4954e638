"""Dates of a topic that are over: told from commits, marked by `_SUCCESS`, and told again when records came late."""
