"""Commands of `lyrebird eventtime`."""
