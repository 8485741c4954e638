"""Commands of `lyrebird search`."""
