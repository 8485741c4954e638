"""The lake: every Kafka record on S3 exactly once, raw and partitioned, and backfills from the raw files."""
