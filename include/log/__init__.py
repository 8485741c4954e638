"""The log: ports (`ports`), names (`topics`), the Kafka adapter, its in-memory double, and what all topics share."""
