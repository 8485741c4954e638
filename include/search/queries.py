"""Request bodies, made of plain values. Pure; `client` sends them.

Pages go by `search_after`. Nested queries hold all conditions on a line inside one clause, else the quantity of one
line would match with the name of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from include.clock import iso
from include.errors import SettingsError
from include.search.cursor import DistanceCursor, ListPlace
from include.search.definition import EXACT, Lines, SearchTarget

__all__ = ["Box", "Circle", "Filters", "Pieces", "by_text", "listed", "nearest", "ranking"]

_MOST: Final = 1_000
"""Most documents of a page and most names of a ranking."""
_SHARD_EXTRA: Final = 1_000
_WHOLE: Final = ("long", "integer", "short", "byte", "unsigned_long")


@dataclass(frozen=True, slots=True)
class Box:
    """Degrees; `west` may be greater than `east` across the 180th meridian."""

    north: float
    west: float
    south: float
    east: float


@dataclass(frozen=True, slots=True)
class Circle:
    """Degrees and metres."""

    lat: float
    lon: float
    metres: float


@dataclass(frozen=True, slots=True)
class Pieces:
    """Bounds of a line's quantity, both inclusive."""

    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Filters:
    """What documents must be. `since_us` is inclusive, `until_us` exclusive; `equal`: field of the body → its value."""

    user: str | int | None = None
    business: str | int | None = None
    since_us: int | None = None
    until_us: int | None = None
    box: Box | None = None
    circle: Circle | None = None
    equal: Mapping[str, str | int | bool] = field(default_factory=dict)


def listed(target: SearchTarget, filters: Filters, size: int, after: ListPlace | None = None) -> dict[str, Any]:
    """Documents that pass the filters, newest first."""
    return {"query": _all(_filters(target, filters)), **_by_time(target, size, after)}


def by_text(
    target: SearchTarget, words: str, pieces: Pieces, filters: Filters, size: int, after: ListPlace | None = None
) -> dict[str, Any]:
    """Asks for documents with a line that has all words in one of its text fields, and that quantity; newest first.

    Words match with a letter or two apart (`pizzas` finds `pizza`). `inner_hits` are the lines that matched.

    Args:
        target: what is searched.
        words: in any order.
        pieces: bounds of the line's quantity.
        filters: what documents must be.
        size: most documents of the page.
        after: end of the last page.

    Raises:
        SettingsError: no lines or no such filter are declared, or the size is not allowed.
    """
    lines = _lines(target)
    path = _body(target, lines.field)
    text = {
        "multi_match": {
            "query": words,
            "fields": [f"{path}.{name}" for name in lines.text],
            "operator": "and",
            "fuzziness": "AUTO:4,8",
            "prefix_length": 2,
        }
    }
    conditions: list[dict[str, Any]] = [text]
    bounds = {name: n for name, n in (("gte", pieces.least), ("lte", pieces.most)) if n is not None}
    if bounds:
        conditions.append({"range": {f"{path}.{lines.quantity}": bounds}})
    nested = {
        "nested": {
            "path": path,
            "query": {"bool": {"filter": conditions}},
            "inner_hits": {"size": 10, "sort": [{"_doc": "asc"}]},
        }
    }
    return {"query": _all([*_filters(target, filters), nested]), **_by_time(target, size, after)}


def nearest(
    target: SearchTarget, circle: Circle, filters: Filters, size: int, after: DistanceCursor | None = None
) -> dict[str, Any]:
    """Documents within the circle, nearest to its centre first."""
    clauses = [*_filters(target, filters), _within(target, circle)]
    distance = {
        "_geo_distance": {
            _location(target): {"lat": circle.lat, "lon": circle.lon},
            "order": "asc",
            "unit": "m",
            "distance_type": "arc",
        }
    }
    body: dict[str, Any] = {
        "query": _all(clauses),
        "size": _size(size),
        "sort": [distance, {"metadata.doc_id": "asc"}],
        "track_total_hits": False,
    }
    return body | ({"search_after": after.search_after()} if after else {})


def ranking(target: SearchTarget, by: str, filters: Filters, size: int, category: str | None = None) -> dict[str, Any]:
    """Names in field `by` of the lines (`item` or `category`) with most lines first: lines, documents, pieces.

    Shards are asked for many more names than are shown, as a name may be rare in one shard and frequent in all.
    """
    lines = _lines(target)
    path = _body(target, lines.field)
    names: dict[str, Any] = {
        "terms": {
            "field": f"{path}.{lines.item if by == 'item' else lines.category}",
            "size": _size(size),
            "shard_size": size * 10 + _SHARD_EXTRA,
        },
        "aggs": {
            "documents": {"reverse_nested": {}},
            "pieces": {"sum": {"field": f"{path}.{lines.quantity}"}},
        },
    }
    inner: dict[str, Any] = {"names": names}
    if category is not None:
        inner = {"only": {"filter": {"term": {f"{path}.{lines.category}": category}}, "aggs": inner}}
    return {
        "size": 0,
        "track_total_hits": False,
        "query": _all(_filters(target, filters)),
        "aggs": {"lines": {"nested": {"path": path}, "aggs": inner}},
    }


def _by_time(target: SearchTarget, size: int, after: ListPlace | None) -> dict[str, Any]:
    time = {
        _body(target, target.search.time): {
            "order": "desc",
            "missing": 0,
            "format": "strict_date_optional_time_nanos",
        }
    }
    body: dict[str, Any] = {
        "size": _size(size),
        "sort": [time, {"metadata.doc_id": "desc"}],
        "track_total_hits": False,
    }
    return body | ({"search_after": after.search_after()} if after else {})


def _filters(target: SearchTarget, filters: Filters) -> list[dict[str, Any]]:
    search = target.search
    clauses: list[dict[str, Any]] = []
    if target.shares_index:
        clauses.append({"term": {"metadata.topic": target.topic}})
    if filters.user is not None:
        clauses.append(_equal(target, search.user, filters.user))
    if filters.business is not None:
        business = _declared(target, search.business, "business")
        clauses.append(_equal(target, business, filters.business))
    bounds = {name: iso(us) for name, us in (("gte", filters.since_us), ("lt", filters.until_us)) if us is not None}
    if bounds:
        clauses.append({"range": {_body(target, search.time): bounds}})
    if filters.box is not None:
        box = filters.box
        corners = {"top": box.north, "left": box.west, "bottom": box.south, "right": box.east}
        clauses.append({"geo_bounding_box": {_location(target): corners}})
    if filters.circle is not None:
        clauses.append(_within(target, filters.circle))
    clauses += [_equal(target, name, value) for name, value in filters.equal.items()]
    return clauses


def _equal(target: SearchTarget, name: str, value: str | int | bool) -> dict[str, Any]:
    kind = target.field_type(name)
    if kind not in EXACT:
        fix = f"See {target.index.mapping} for fields of these types."
        raise SettingsError(
            "no field of this name is compared as a whole", field=name, type=kind, allowed=EXACT, fix=fix
        )
    if kind in _WHOLE and not (isinstance(value, int) or value.removeprefix("-").isdecimal()):
        raise SettingsError("not a whole number", field=name, got=value, type=kind)
    return {"term": {_body(target, name): value}}


def _within(target: SearchTarget, circle: Circle) -> dict[str, Any]:
    point = {"lat": circle.lat, "lon": circle.lon}
    return {"geo_distance": {"distance": f"{circle.metres}m", _location(target): point}}


def _all(clauses: list[dict[str, Any]]) -> dict[str, Any]:
    """Living documents that pass all of them.

    Tombstones are left out rather than the living asked for: nearly all documents are living, and to walk through
    those in each segment took two thirds of the server's time for a page.
    """
    return {"bool": {"filter": clauses, "must_not": [{"term": {"metadata.deleted": True}}]}}


def _body(target: SearchTarget, name: str) -> str:
    return f"{target.search.entity}.{name}"


def _location(target: SearchTarget) -> str:
    return _body(target, _declared(target, target.search.location, "location"))


def _lines(target: SearchTarget) -> Lines:
    if target.search.lines is None:
        raise _undeclared(target, "lines")
    return target.search.lines


def _declared(target: SearchTarget, name: str | None, what: str) -> str:
    if name is None:
        raise _undeclared(target, what)
    return name


def _undeclared(target: SearchTarget, what: str) -> SettingsError:
    return SettingsError(
        "the search does not say where this is", search=target.name, missing=what, fix=f"Add `{what}:` to its entry."
    )


def _size(size: int) -> int:
    if not 1 <= size <= _MOST:
        raise SettingsError("not a size of a page", got=size, allowed=f"1..{_MOST}")
    return size
