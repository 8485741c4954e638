"""An index as it is declared: its settings, its mapping, its alias; and whether a live one is that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from include.errors import Terminal
from include.index.definition import IndexDefinition
from include.index.mapping.fields import analysis, copies, dynamic_of, fields
from include.index.mapping.limits import beyond_limits
from include.index.metadata import FIELDS, LIVING, NOT_SEARCHED, metadata_mapping
from include.index.server.port import IndexInfo

__all__ = ["check", "creation", "drift", "places", "require_metadata", "undeclared"]

# Types whose values a server can lay documents by.
_SORTABLE: Final = frozenset({"boolean", "byte", "date", "date_nanos", "double", "integer", "keyword", "long", "short"})
# What a server leaves out when it shows a mapping.
_DEFAULTS: Final = {"index": True, "doc_values": True, "enabled": True, "store": False, "coerce": True, "norms": True}


def creation(alias: str, definition: IndexDefinition, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """What to create the index with; raises `Terminal` for a mapping without what it needs, or beyond limits."""
    require_metadata(str(definition.mapping), mapping)
    beyond = beyond_limits(mapping)
    if beyond:
        raise Terminal(
            "mapping is more than a server takes",
            mapping=definition.mapping,
            limits=beyond,
            fix="Declare a part as {type: flattened}, or as {type: object, enabled: false}.",
        )
    nowhere = copies(mapping) - places(mapping)
    if nowhere:
        raise Terminal(
            "mapping copies values into fields that it lacks",
            mapping=definition.mapping,
            fields=sorted(nowhere),
            fix="Declare them, e.g. as {type: text}.",
        )
    found = analysis(mapping)
    return {
        "settings": {
            **_sorting(definition, mapping),
            **({"analysis": found} if found else {}),
            "number_of_shards": definition.shards,
            "number_of_replicas": definition.replicas,
            "refresh_interval": definition.refresh_interval,
            # A shard that nobody asked for 30 s would stop refreshing, and the next reader would pay for it.
            "search.idle.after": "365d",
        },
        "mappings": dict(mapping),
        "aliases": {alias: {"filter": LIVING}},
    }


def _sorting(definition: IndexDefinition, mapping: Mapping[str, Any]) -> dict[str, Any]:
    if not definition.sort:
        return {}
    sort = [name.removeprefix("-") for name in definition.sort]
    kinds = {name: field for name, field in fields(mapping) if name in sort}
    wrong = [name for name in sort if kinds.get(name, {}).get("type") not in _SORTABLE]
    nested = [name for name, field in fields(mapping) if field["type"] == "nested"]
    wrong += [name for name in sort if any(name.startswith(f"{path}.") for path in nested)]
    if wrong:
        raise Terminal(
            "an index cannot be sorted by these fields",
            mapping=definition.mapping,
            fields=wrong,
            allowed=sorted(_SORTABLE),
            fix="Name fields of the mapping, as order.user_id, that are in no nested object.",
        )
    orders = ["desc" if name.startswith("-") else "asc" for name in definition.sort]
    return {"sort.field": sort, "sort.order": orders}


def require_metadata(where: str, mapping: Mapping[str, Any]) -> None:
    """Raise `Terminal` unless the mapping has every metadata field with the type that audits and readers rely on."""
    found = mapping.get("properties", {}).get("metadata", {}).get("properties", {})
    wrong = {name: found.get(name) for name, kind in FIELDS.items() if not _serves(found.get(name, {}), name, kind)}
    if wrong:
        raise Terminal(
            "mapping lacks metadata fields, or has them with other types",
            mapping=where,
            found=wrong,
            allowed={name: field for name, field in metadata_mapping()["properties"].items() if name in wrong},
            fix="Put them into the mapping file and create a new generation of the index.",
        )


def _serves(field: Mapping[str, Any], name: str, kind: str) -> bool:
    """Whether a metadata field holds every value whole, can be added up, and searched where it is searched for."""
    hides = "ignore_above" in field or "normalizer" in field or field.get("doc_values") is False
    return field.get("type") == kind and not hides and (field.get("index") is not False or name in NOT_SEARCHED)


def check(info: IndexInfo, alias: str, declared: Mapping[str, Any]) -> list[str]:
    """How a live index differs from what is declared, one line each; raises `Terminal` as `require_metadata`.

    Fields that only the index has are `undeclared`; below objects that take new names they are data.
    """
    require_metadata(info.name, info.mapping)
    lines = []
    if alias not in info.aliases:
        lines.append(f"alias {alias} does not lead to {info.name}")
    elif info.aliases[alias].get("filter") != LIVING:
        lines.append(f"alias {alias} does not hide deleted documents")
    return lines + drift(info, declared)


def drift(info: IndexInfo, declared: Mapping[str, Any]) -> list[str]:
    """How a live index's mapping differs from what is declared, one line each."""
    lines = []
    if dynamic_of(declared) != dynamic_of(info.mapping):
        lines.append(f"dynamic: declared {dynamic_of(declared)}, {dynamic_of(info.mapping)} in the index")
    want, have = dict(fields(declared)), dict(fields(info.mapping))
    lines += [f"{name}: declared {want[name]['type']}, missing in the index" for name in want if name not in have]
    lines += [line for name in want if name in have for line in _differ(name, want[name], have[name])]
    rules = {name for each in info.mapping.get("dynamic_templates", ()) for name in each}
    wanted = [name for each in declared.get("dynamic_templates", ()) for name in each]
    return lines + [f"dynamic_templates: {name} is missing in the index" for name in wanted if name not in rules]


def undeclared(info: IndexInfo, declared: Mapping[str, Any]) -> list[str]:
    """Fields that the index has and the declaration has not: mostly those that came with newer schemas."""
    want = dict(fields(declared))
    return [f"{name}: {field['type']}" for name, field in fields(info.mapping) if name not in want]


def places(mapping: Mapping[str, Any]) -> frozenset[str]:
    """All fields and sub-fields of a mapping by their paths, those of maps without the names that are data."""
    return frozenset(name for name, _ in fields(mapping))


def _differ(name: str, want: Mapping[str, Any], have: Mapping[str, Any]) -> Iterator[str]:
    for param in sorted(want.keys() | have.keys()):
        said, found = (str(field.get(param, _DEFAULTS.get(param, "unset"))).lower() for field in (want, have))
        if said != found:
            what = "" if param == "type" else f"{param} "
            yield f"{name}: declared {what}{said}, {what}{found} in the index"
