"""Commands of `lyrebird documents`."""
