"""Values of a message, read in its own encoding, as far as rules want them."""
