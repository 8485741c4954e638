"""Which tables, columns and values may leave."""
