"""The log in Kafka."""
