"""Compares a topic's schema with a mapping, field by field, and finds what becomes of its documents there.

Findings come in the order of the schema. Places are paths in the document: `order.lines.price`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from include.index.mapping.coercion import ValueEffect, effects_of
from include.index.mapping.fields import copies, dynamic_of, fields, targets
from include.index.mapping.limits import FIELDS
from include.index.mapping.value_types import Form, Leaf, ListOf, MapOf, OneOf, RecordType, Unknown

__all__ = ["FieldVerdict", "MappingFinding", "compare", "ruled", "templated", "types_names"]

FieldVerdict = Literal["refused", "coerced", "missing", "unsent", "limited"]
"""Those of `coercion.Level`; missing: the mapping lacks the field. unsent: the schema lacks it."""
Templates = tuple[str, ...]
"""Paths, with `*`, whose new names are typed by rule."""

_NESTED_OBJECTS: Final = 10_000
_LOCATION: Final = frozenset({"lat", "lon"})
_NARROWING: Final = frozenset({"match", "unmatch", "path_unmatch", "unmatch_mapping_type", "match_pattern", "runtime"})
_UNSEARCHED: Final = "kept in the document, not searched"
_FURTHER: Final = {"strict": "a document with one is refused", "false": "they are kept, not searched"}


@dataclass(frozen=True, slots=True)
class MappingFinding:
    """Something about one field. `sent` is the schema's word, `type` the mapping's; either may be empty."""

    verdict: FieldVerdict
    place: str
    sent: str
    type: str
    reason: str

    def __str__(self) -> str:
        pair = " into ".join(part for part in (self.sent, self.type) if part)
        return f"{self.place}: {pair}: {self.reason}"


def compare(form: Form, mapping: Mapping[str, Any], entity: str) -> Iterator[MappingFinding]:
    """Findings for bodies of `form` under the name `entity` in documents of an index with this mapping."""
    document = RecordType({entity: form})
    whole = {**mapping, "properties": {n: f for n, f in mapping.get("properties", {}).items() if n == entity}}
    copied = copies(mapping)
    walk = _Walk(templated(mapping), copied, copied - {place for place, _ in fields(mapping)})
    return walk.record(document, whole, "", dynamic_of(mapping))


def templated(mapping: Mapping[str, Any]) -> Templates:
    """Paths below which an index types new names by rule instead of by their first values."""
    rules = [rule for template in mapping.get("dynamic_templates", ()) for rule in template.values()]
    paths = (rule.get("path_match", ()) for rule in rules)
    return tuple(each for path in paths for each in ([path] if isinstance(path, str) else path))


def types_names(templates: Templates, place: str) -> bool:
    """Whether new names below `place` are typed by rule."""
    return any(fnmatch.fnmatchcase(f"{place}.x", path) for path in templates)


def ruled(mapping: Mapping[str, Any], place: str) -> Mapping[str, Any] | None:
    """The mapping of names at `place` by the first rule for them, whatever their values; none where no rule does so."""
    for template in mapping.get("dynamic_templates", ()):
        for rule in template.values():
            paths = rule.get("path_match", ())
            every = rule.get("match_mapping_type", "*") == "*" and not _NARROWING & rule.keys()
            if every and any(
                fnmatch.fnmatchcase(place, path) for path in ([paths] if isinstance(paths, str) else paths)
            ):
                return dict(rule.get("mapping", {}))
    return None


@dataclass(frozen=True, slots=True)
class _Walk:
    """`dynamic` is always that of the object above; `copied` get copies of fields, of them `nowhere` are missing."""

    templates: Templates
    copied: frozenset[str]
    nowhere: frozenset[str]

    def value(self, form: Form, field: Mapping[str, Any], place: str, dynamic: str) -> Iterator[MappingFinding]:
        kind = str(field.get("type", "object"))
        if field.get("enabled") is False:
            yield MappingFinding("limited", place, _said(form), kind, _UNSEARCHED)
        elif isinstance(form, OneOf):
            for branch in form.branches:
                yield from self.value(branch, field, place, dynamic)
        elif isinstance(form, Unknown):
            yield MappingFinding("limited", place, "", kind, f"cannot be judged: {form.reason}")
        elif isinstance(form, Leaf):
            yield from _scalar(form, field, place)
            if dynamic == "strict":
                for target in sorted(self.nowhere & set(targets(field))):
                    yield MappingFinding(
                        "refused", place, form.said, kind, f"it is copied to {target}, which the index lacks"
                    )
        elif isinstance(form, ListOf):
            yield from self._list(form, field, place, dynamic)
        else:
            yield from self._object(form, field, place, dynamic)

    def _object(
        self, form: RecordType | MapOf, field: Mapping[str, Any], place: str, dynamic: str
    ) -> Iterator[MappingFinding]:
        kind = str(field.get("type", "object"))
        if kind in ("object", "nested"):
            into = self.record if isinstance(form, RecordType) else self._map
            yield from into(form, field, place, dynamic_of(field, dynamic))  # type: ignore[arg-type]
        elif kind == "flattened":
            reason = "searched as exact texts, no ranges; a text of over 32,766 bytes is refused"
            yield MappingFinding("limited", place, _said(form), kind, reason)
        elif kind == "geo_point" and isinstance(form, RecordType) and form.fields.keys() >= _LOCATION:
            # Seen on a server: {"lat": null, "lon": null} is refused, null in the place of the object is not.
            yield MappingFinding(
                "limited", place, "record", kind, "one without lat or lon, or out of range, is refused"
            )
        else:
            yield MappingFinding("refused", place, _said(form), kind, "no value of this kind fits the type")

    def _list(self, form: ListOf, field: Mapping[str, Any], place: str, dynamic: str) -> Iterator[MappingFinding]:
        items, kind = form.items, str(field.get("type", "object"))
        while isinstance(items, ListOf):
            items = items.items
        if kind == "dense_vector":
            yield MappingFinding("limited", place, _said(form), kind, "a list of another length than `dims` is refused")
            return
        if kind == "geo_point" and isinstance(items, Leaf) and items.kind in ("int", "long", "float", "double"):
            yield MappingFinding("coerced", place, _said(form), kind, "read as one place: [lon, lat]")
            return
        if kind == "nested" and isinstance(items, RecordType):
            reason = f"a document with over {_NESTED_OBJECTS:,} elements is refused"
            yield MappingFinding("limited", place, _said(form), kind, reason)
        elif kind == "object" and isinstance(items, RecordType):
            reason = "a query matches one element's field with another's; `nested` keeps them together"
            yield MappingFinding("coerced", place, _said(form), kind, reason)
        yield from self.value(items, field, place, dynamic)

    def record(self, form: RecordType, field: Mapping[str, Any], place: str, dynamic: str) -> Iterator[MappingFinding]:
        fields = field.get("properties", {})
        for name, field_form in form.fields.items():
            path = f"{place}.{name}" if place else name
            if name in fields:
                yield from self.value(field_form, fields[name], path, dynamic)
            elif dynamic == "false":
                yield MappingFinding("limited", path, _said(field_form), "", f"{_UNSEARCHED} (dynamic: false)")
            else:
                yield MappingFinding("missing", path, _said(field_form), "", "not in the mapping yet")
        if form.more:
            reason = _FURTHER.get(dynamic, "typed by a name's first value")
            yield MappingFinding("limited", place, "record", "", f"the schema allows further names: {reason}")
        for name, sub in fields.items():
            path = f"{place}.{name}"
            if name not in form.fields and sub.get("type") != "alias" and path not in self.copied:
                kind = str(sub.get("type", "object"))
                yield MappingFinding("unsent", path, "", kind, "not in the topic's schema")

    def _map(self, form: MapOf, field: Mapping[str, Any], place: str, dynamic: str) -> Iterator[MappingFinding]:
        kind = str(field.get("type", "object"))
        if dynamic == "false":
            yield MappingFinding("limited", place, "map", kind, "names that the mapping lacks are not searched")
        elif dynamic == "strict":
            yield MappingFinding(
                "limited", place, "map", kind, "a document with a name that the mapping lacks is refused"
            )
        elif types_names(self.templates, place):
            reason = f"a field for each name; a document that brings more than {FIELDS:,} into the index is refused"
            yield MappingFinding("limited", place, "map", kind, reason)
        else:
            yield MappingFinding(
                "coerced", place, "map", kind, "a name's first value decides its type: 1, then 2.7 is 2"
            )
        for name, sub in field.get("properties", {}).items():
            yield from self.value(form.values, sub, f"{place}.{name}", dynamic)


def _scalar(leaf: Leaf, field: Mapping[str, Any], place: str) -> Iterator[MappingFinding]:
    yield from _findings(effects_of(leaf, field), place, leaf, field)
    for name, sub in field.get("fields", {}).items():
        yield from _findings(effects_of(leaf, sub), f"{place}.{name}", leaf, sub)


def _findings(
    effects: tuple[ValueEffect, ...], place: str, leaf: Leaf, field: Mapping[str, Any]
) -> Iterator[MappingFinding]:
    for effect in effects:
        yield MappingFinding(effect.level, place, leaf.said, str(field.get("type", "object")), effect.reason)


def _said(form: Form) -> str:
    if isinstance(form, Leaf):
        return form.said
    if isinstance(form, ListOf):
        return f"list of {_said(form.items)}"
    names = {RecordType: "record", MapOf: "map", OneOf: "one of several", Unknown: "anything"}
    return names[type(form)]
