"""The audit of the lake's chains: every offset in exactly one committed object of each group."""
