"""The server's limits on a mapping, by its defaults (seen on Elasticsearch 8.19)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["DEPTH", "FIELDS", "NESTED", "beyond_limits", "field_count"]

FIELDS: Final = 1000
"""Most fields of an index: objects, sub-fields and aliases count."""
NESTED: Final = 50
"""Most nested fields of an index."""
DEPTH: Final = 20
"""Most levels: the root and the objects on a field's path."""


def beyond_limits(mapping: Mapping[str, Any]) -> list[str]:
    """Which limits a mapping exceeds, one line each; none for a mapping that the server takes."""
    counts = (
        ("fields", field_count(mapping), FIELDS),
        ("nested fields", _nested(mapping), NESTED),
        ("levels", _levels(mapping), DEPTH),
    )
    return [f"{have:,} {what}, at most {most:,}" for what, have, most in counts if have > most]


def field_count(mapping: Mapping[str, Any]) -> int:
    """Fields as the server counts them."""
    fields = mapping.get("properties", {}).values()
    return sum(1 + len(field.get("fields", {})) + field_count(field) for field in fields)


def _nested(mapping: Mapping[str, Any]) -> int:
    fields = mapping.get("properties", {}).values()
    return sum((field.get("type") == "nested") + _nested(field) for field in fields)


def _levels(mapping: Mapping[str, Any]) -> int:
    objects = [field for field in mapping.get("properties", {}).values() if "properties" in field]
    return 1 + max(map(_levels, objects), default=0)
