"""What a join is, without files, topics, formats and engines: rows go in, outputs come out."""
