"""The Elasticsearch adapters of a search audit."""
