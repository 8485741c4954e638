"""Commands of `lyrebird state`."""
