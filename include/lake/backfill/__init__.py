"""Backfills: cuts of a partition group made again from the raw copy, or from Kafka, under a generation of their own."""
