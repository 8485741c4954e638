"""Streaming applications in Spark: batches of tasks, supervised."""
