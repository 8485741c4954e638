"""Lyrebird's library: copies MySQL and event streams, and proves that each copy is right."""
