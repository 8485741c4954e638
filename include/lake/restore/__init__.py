"""Topics made again in Kafka from their backup, with a map from old offsets to new ones."""
