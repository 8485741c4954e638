"""Plans the batches of a stream: topics followed, ranges cut at resolved records, read by tasks."""
