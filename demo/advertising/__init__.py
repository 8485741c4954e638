"""The business of advertising beside the shop: packages that businesses buy, on a server of its own."""
