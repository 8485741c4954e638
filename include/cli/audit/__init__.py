"""Commands of `lyrebird audit`."""
