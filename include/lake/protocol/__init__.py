"""Exactly once into the object store: chains of intents, data and commits, their names, the readers' pointer."""
