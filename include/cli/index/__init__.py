"""Commands of `lyrebird index`."""
