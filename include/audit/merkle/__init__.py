"""Whether two copies of a table hold the same rows: sums of hashes by leaf, then the rows of leaves that differ."""
