"""A fleet of scooters that sends telemetry: topics whose partitions differ in speed, with a truth that is known."""
