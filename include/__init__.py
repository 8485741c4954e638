"""Lyrebird's library: copies MySQL and event streams, and proves that each copy is right."""

__all__ = ["VERSION"]

VERSION = "0.1.0"
"""Of the library, the command and the image of docker-compose.yaml; pyproject.toml takes it from here."""
