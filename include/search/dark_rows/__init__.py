"""A dark launch of joined rows: documents of one index beside the rows that a join made of the same tables."""
