"""The progress of an index in its topics, kept beside it."""
