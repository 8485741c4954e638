"""Object storage: port, S3 adapter, in-memory double, and a probe for conditional writes."""
