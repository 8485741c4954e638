"""A first mapping for documents of known form, each choice with the comment that a person needs to tweak it.

| sent | field | |
|---|---|---|
| boolean, int, long, float, double | boolean, integer, long, float, double | |
| decimal | double to 15 digits, else keyword | a double holds 15 digits exactly |
| text | text with `keyword` | words; exact value, sorting, counts |
| enum, uuid, bytes, time | keyword | |
| date, timestamp-millis | date | |
| timestamp-micros, other timestamps | date_nanos | from 1970 to 2262, others are refused |
| record; list of records | object; nested | one line's fields stay together |
| list of scalars | the scalar's type | every field may have many values |
| map | object that takes new names, each typed as the map's values | |

Refused, with every place: values of several types, records that hold themselves, maps of records, empty names. Such
a place can be kept without being searched (`unsearched`), or is declared by hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from include.errors import Terminal
from include.index.mapping.value_types import Form, Leaf, ListOf, MapOf, OneOf, RecordType
from include.index.metadata import metadata_mapping

__all__ = ["LONGEST_EXACT", "Choice", "starter", "starter_index"]

LONGEST_EXACT: Final = 8191
"""`ignore_above` of exact texts, in UTF-16 units: of at most 3 bytes each they stay below a term's 32,766 bytes."""
_EXACT_DIGITS: Final = 15

_LEGENDS: Final[dict[str, str]] = {
    "text": "string: `text` finds words, `.keyword` the exact value, for sorting and counting too; there texts of over "
    f"{LONGEST_EXACT:,} characters are hidden. Codes only: {{type: keyword}}. "
    "Found without case and accents: {type: text, analyzer: folded}, as a whole {type: keyword, normalizer: folded}. "
    "Found by searches that name no field, though in a nested object: copy_to a text field outside of it.",
    "bytes": "bytes: as base64, over 24 kB is refused. Never searched: {type: binary}.",
    "decimal": "decimal: exact in a double up to 15 digits. Sums without rounding, where the server has the type: "
    "{type: scaled_float, scaling_factor: 100} for two places.",
    "long decimal": "decimal of over 15 digits: exact, but sorted as text. {type: double} rounds it.",
    "time": "time: sorted as text, which is by time unless some are negative or beyond a day.",
    "timestamp": "timestamp of microseconds: date_nanos holds 1970 to 2262, other times set their document aside. "
    "{type: date} takes all, cut to milliseconds.",
    "record": "record: {type: object, enabled: false} keeps it in documents without searching it.",
    "place": "record with lat and lon: {type: geo_point} in the place of all below makes a place of it.",
    "list": "list of records: `nested`, so that a query matches within one of them; a document has 10,000 at most.",
    "map": "map: a field for each name, typed by `dynamic_templates`, 1,000 fields in the index at most. "
    "Many names: {type: flattened} and no template.",
}
_LEGEND_OF: Final = {"timestamp_micros": "timestamp"}
_KEPT: Final = {"type": "object", "enabled": False}
_EXACT_TEXT: Final = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": LONGEST_EXACT}}}
_TYPES: Final[dict[str, str]] = {
    "decimal": "double",
    "long decimal": "keyword",
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "enum": "keyword",
    "uuid": "keyword",
    "bytes": "keyword",
    "time": "keyword",
    "date": "date",
    "timestamp_millis": "date",
    "timestamp_micros": "date_nanos",
    "timestamp": "date_nanos",
}


@dataclass(frozen=True)
class Choice:
    """One field's mapping, with a word on it for a reader; `templates` are root entries that it needs.

    `legend` is what can be chosen instead, the same for all fields of that kind.
    """

    params: Mapping[str, Any]
    comment: str = ""
    legend: str = ""
    properties: Mapping[str, Choice] | None = None
    templates: tuple[Mapping[str, Any], ...] = ()

    def mapping(self) -> dict[str, Any]:
        """As the server takes it, without comments and without `templates`."""
        out = dict(self.params)
        if self.properties is not None:
            out["properties"] = {name: choice.mapping() for name, choice in self.properties.items()}
        return out

    def legends(self) -> Iterator[str]:
        """Its own legend and those of all fields below; one may come several times."""
        if self.legend:
            yield self.legend
        for choice in (self.properties or {}).values():
            yield from choice.legends()

    def all_templates(self) -> Iterator[Mapping[str, Any]]:
        """Its own root entries and those of all fields below."""
        yield from self.templates
        for choice in (self.properties or {}).values():
            yield from choice.all_templates()


def starter(form: Form, place: str, unsearched: Collection[str] = ()) -> Choice:
    """The mapping of a value at `place` (`order.lines`); raises `Terminal` naming all places that have none."""
    builder = _Builder(frozenset(unsearched))
    choice = builder.choice(form, place)
    if builder.refused:
        raise Terminal(
            "no mapping follows from the schema",
            places=builder.refused,
            fix="Declare them by hand; `{type: object, enabled: false}` (`--unsearched PLACE`) keeps one as it is.",
        )
    unknown = sorted(builder.unsearched - builder.met)
    if unknown:
        raise Terminal("no such field", places=unknown, fix="Name fields as <entity>.<field>.")
    return choice


def starter_index(bodies: Mapping[str, Form], unsearched: Collection[str] = ()) -> Choice:
    """The whole index: `bodies` by entity, and the metadata fields. Raises as `starter`."""
    entities = RecordType(bodies)
    body = starter(entities, "", unsearched).properties or {}
    metadata = {name: Choice(params) for name, params in metadata_mapping()["properties"].items()}
    properties = {**body, "metadata": Choice({}, "where a document comes from: leave as it is", properties=metadata)}
    comment = "no field is typed by guessing; those of newer schemas are added by the indexer"
    params: dict[str, Any] = {"dynamic": "strict"}
    templates = [template for choice in body.values() for template in choice.all_templates()]
    if templates:
        params["dynamic_templates"] = templates
    return Choice(params, comment, properties=properties)


@dataclass
class _Builder:
    unsearched: frozenset[str]
    refused: dict[str, str] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)

    def choice(self, form: Form, place: str) -> Choice:
        self.met.add(place)
        if place in self.unsearched:
            return Choice(_KEPT, "kept in the document, not searched")
        if isinstance(form, Leaf):
            return self._scalar(form, place)
        if isinstance(form, RecordType):
            return self._record(form, place)
        if isinstance(form, ListOf):
            return self._list(form, place)
        if isinstance(form, MapOf):
            return self._map(form, place)
        if isinstance(form, OneOf):
            return self._one_of(form, place)
        return self._refuse(place, form.reason)

    def _refuse(self, place: str, reason: str) -> Choice:
        self.refused[place] = reason
        return Choice({})

    def _scalar(self, leaf: Leaf, place: str) -> Choice:
        if leaf.kind == "null":
            return Choice(_KEPT, "null: never holds a value")
        kind = str(leaf.kind)
        if kind == "decimal" and leaf.precision > _EXACT_DIGITS:
            kind = "long decimal"
        legend = _LEGENDS.get(_LEGEND_OF.get(kind, kind), "")
        return Choice(_EXACT_TEXT if kind == "text" else {"type": _TYPES[kind]}, leaf.said, legend)

    def _record(self, form: RecordType, place: str) -> Choice:
        fields = {}
        for name, each in form.fields.items():
            if not name.strip() or "." in name or "*" in name:
                self._refuse(f"{place}.{name}".lstrip("."), "a field's name is not empty and has no '.' or '*'")
            else:
                fields[name] = self.choice(each, f"{place}.{name}".lstrip("."))
        legend = _LEGENDS["place" if form.fields.keys() >= {"lat", "lon"} else "record"]
        return Choice({}, "record", legend if place else "", fields)

    def _list(self, form: ListOf, place: str) -> Choice:
        items = form.items
        while isinstance(items, ListOf):
            items = items.items
        choice = self.choice(items, place)
        if isinstance(items, RecordType):
            return Choice({"type": "nested"}, "list of records", _LEGENDS["list"], choice.properties)
        return replace(choice, comment=f"list of {choice.comment}")

    def _map(self, form: MapOf, place: str) -> Choice:
        values = form.values
        while isinstance(values, MapOf | ListOf):
            values = values.values if isinstance(values, MapOf) else values.items
        if isinstance(values, RecordType):
            return self._refuse(place, "a map of records")
        choice = self.choice(values, place)
        template = {
            place: {"path_match": f"{place}.*", "match_mapping_type": "*", "mapping": choice.mapping()},
        }
        # Names are data: one with dots is one field, not objects within objects.
        params = {"type": "object", "dynamic": True, "subobjects": False}
        return Choice(params, f"map of {choice.comment}", _LEGENDS["map"], None, (template,))

    def _one_of(self, form: OneOf, place: str) -> Choice:
        choices = [self.choice(branch, place) for branch in form.branches]
        if any(each.mapping() != choices[0].mapping() for each in choices) or place in self.refused:
            said = ", ".join(choice.params.get("type", "object") for choice in choices)
            return self._refuse(place, self.refused.get(place) or f"values of several types: {said}")
        return choices[0]
