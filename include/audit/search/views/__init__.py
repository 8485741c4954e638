"""Views: what a search audit asks of an index, at one moment, in Elasticsearch and in memory."""
