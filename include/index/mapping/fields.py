"""Walks over a mapping: its fields by their paths, and what fields ask of the rest of the index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["FOLDED", "analysis", "copies", "dynamic_of", "fields", "targets"]

FOLDED: Final = "folded"
"""Name of the analyzer, for words, and of the normalizer, for whole values, without case and accents."""
_FILTERS: Final = ["lowercase", "asciifolding"]


def dynamic_of(field: Mapping[str, Any], above: str = "true") -> str:
    """`true`, `false`, `strict` or `runtime`; the server gives texts, files give booleans too."""
    return str(field.get("dynamic", above)).lower()


def fields(mapping: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All fields and sub-fields with their parameters, those of maps without the names that are data."""
    for name, field in mapping.get("properties", {}).items():
        full = f"{path}{name}"
        yield full, _params(field)
        if dynamic_of(field, "strict") not in ("true", "runtime"):
            yield from fields(field, f"{full}.")
        for sub, params in field.get("fields", {}).items():
            yield f"{full}.{sub}", _params(params)


def analysis(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """What an index of this mapping is created with, so that it knows `folded`; empty where no field names it.

    Only a closed index could be given it later: one that lacks it needs a new generation.
    """
    rules = [rule.get("mapping", {}) for template in mapping.get("dynamic_templates", ()) for rule in template.values()]
    everywhere = [params for _, params in fields(mapping)]
    everywhere += [params for each in rules for _, params in fields({"properties": {"rule": each}})]
    used = {params.get(name) for params in everywhere for name in ("analyzer", "search_analyzer", "normalizer")}
    if FOLDED not in used:
        return {}
    return {
        "analyzer": {FOLDED: {"type": "custom", "tokenizer": "standard", "filter": _FILTERS}},
        "normalizer": {FOLDED: {"type": "custom", "filter": _FILTERS}},
    }


def copies(mapping: Mapping[str, Any]) -> frozenset[str]:
    """Paths of the fields that get copies of others' values."""
    return frozenset(target for _, params in fields(mapping) for target in targets(params))


def targets(field: Mapping[str, Any]) -> list[str]:
    """Where a field's values are copied to."""
    named = field.get("copy_to", [])
    return [named] if isinstance(named, str) else list(named)


def _params(field: Mapping[str, Any]) -> Mapping[str, Any]:
    own = {name: value for name, value in field.items() if name not in ("properties", "fields")}
    return {"type": "object", **own}
