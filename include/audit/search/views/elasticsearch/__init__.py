"""What an audit asks of Elasticsearch."""
