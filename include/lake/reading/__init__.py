"""Reads for the lake: ranges of Kafka's partitions, and the schemas behind their records."""
