"""Ports to a search server, on Elasticsearch and in memory."""
