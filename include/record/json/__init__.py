"""Keys and values of records as canonical JSON, whatever they are written in."""
