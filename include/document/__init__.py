"""Documents: signals of a fact table and look-ups in MySQL make one document for each entity."""
