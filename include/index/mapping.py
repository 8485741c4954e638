"""An index as it is declared: its settings, its mapping, its alias; and whether a live one is that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from include.errors import Terminal
from include.index.definition import IndexDefinition
from include.index.metadata import FIELDS
from include.index.port import IndexInfo

__all__ = ["LIVING", "check", "creation", "require_metadata"]

LIVING: dict[str, Any] = {"term": {"metadata.deleted": False}}
"""The alias's filter: readers never see soft-delete tombstones."""


def creation(alias: str, definition: IndexDefinition, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """What to create the index with; raises `Terminal` for a mapping without the metadata fields."""
    require_metadata(str(definition.mapping), mapping)
    return {
        "settings": {
            "number_of_shards": definition.shards,
            "number_of_replicas": definition.replicas,
            "refresh_interval": definition.refresh_interval,
            # A shard that nobody asked for 30 s would stop refreshing, and the next reader would pay for it.
            "search.idle.after": "365d",
        },
        "mappings": dict(mapping),
        "aliases": {alias: {"filter": LIVING}},
    }


def require_metadata(where: str, mapping: Mapping[str, Any]) -> None:
    """Raise `Terminal` unless the mapping has every metadata field with the type that audits and readers rely on."""
    found = mapping.get("properties", {}).get("metadata", {}).get("properties", {})
    wrong = {
        name: found.get(name, {}).get("type")
        for name, kind in FIELDS.items()
        if found.get(name, {}).get("type") != kind or "ignore_above" in found[name] or "normalizer" in found[name]
    }
    if wrong:
        raise Terminal(
            "mapping lacks metadata fields, or has them with other types",
            mapping=where,
            found=wrong,
            allowed={name: FIELDS[name] for name in wrong},
            fix="Put them into the mapping file and create a new generation of the index.",
        )


def check(info: IndexInfo, alias: str, declared: Mapping[str, Any]) -> list[str]:
    """How a live index differs from what is declared, one line each; raises `Terminal` as `require_metadata`."""
    require_metadata(info.name, info.mapping)
    lines = []
    if alias not in info.aliases:
        lines.append(f"alias {alias} does not lead to {info.name}")
    elif info.aliases[alias].get("filter") != LIVING:
        lines.append(f"alias {alias} does not hide deleted documents")
    want, have = dict(_fields(declared)), dict(_fields(info.mapping))
    lines += [f"{name}: declared {kind}, missing in the index" for name, kind in want.items() if name not in have]
    lines += [f"{name}: {kind} in the index, not declared" for name, kind in have.items() if name not in want]
    lines += [f"{n}: declared {want[n]}, {have[n]} in the index" for n in want if n in have and want[n] != have[n]]
    return lines


def _fields(mapping: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, field in mapping.get("properties", {}).items():
        full = f"{path}{name}"
        yield full, field.get("type", "object")
        yield from _fields(field, f"{full}.")
        for sub, kind in field.get("fields", {}).items():
            yield f"{full}.{sub}", kind.get("type", "")
