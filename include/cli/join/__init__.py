"""Commands of `lyrebird join`."""
