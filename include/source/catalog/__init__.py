"""What a table is: the server's description, the filter policy and a table map, held together."""
