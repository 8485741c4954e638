"""An Elasticsearch that fails as real ones do: in memory, and as an HTTP server on loopback."""
