"""Keyed state for stages that run in Spark: buckets in an embedded store, versions of them in the object store."""
