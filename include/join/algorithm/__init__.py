"""The algorithm of joins, without files, topics, formats and engines: rows go in, outputs come out."""
