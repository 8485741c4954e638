"""What operators and readers ask of the lake: where a record is, which objects to read, how far it is."""
