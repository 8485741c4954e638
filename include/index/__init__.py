"""Index: records of any schematised topic into Elasticsearch, newest version last."""
