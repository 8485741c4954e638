"""Keys in order, from Spark."""
