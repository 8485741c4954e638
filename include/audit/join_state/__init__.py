"""The audit of what joins keep: the newest rows of the inputs, against the buckets of the state."""
