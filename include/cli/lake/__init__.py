"""Commands of `lyrebird lake`."""
