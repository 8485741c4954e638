"""Mappings: what is declared, what a server makes of values, what a topic's schema needs."""
