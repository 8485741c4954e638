"""Commands of `lyrebird capture`."""
