"""How far an index is with its topics, kept beside it."""
