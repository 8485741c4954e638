"""What documents read of the source's database: rows of one consistent moment, at a bounded rate."""
