"""Rows as Avro and JSON: read from records, cut out of their images, put together to outputs."""
