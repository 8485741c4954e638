"""Search: answers from the index."""
