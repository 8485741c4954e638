"""What the lake reads: ranges of Kafka's partitions, and the schemas behind their records."""
