"""Commands of `lyrebird table`."""
