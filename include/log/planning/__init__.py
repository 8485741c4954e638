"""What one batch of a stream covers: topics followed, ranges cut at resolved records, read by tasks."""
