"""Definitions of the state that capture keeps in its resolved records for a restart."""
