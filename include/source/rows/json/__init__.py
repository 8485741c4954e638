"""MySQL's binary JSON."""
