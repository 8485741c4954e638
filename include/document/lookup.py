"""Walks the look-ups of a definition set-wise: one read for each table and depth, whatever the number of documents.

Forwards (`attach`) from fact rows to what their documents show; backwards (`keys_behind`) from changed rows of a
signal table to the keys of the documents that show them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from include.document.definition import Fact, Fields, Hop, Lookup, Path
from include.document.tables import Keys, NoSuchTable, Row, Tables

__all__ = ["Missing", "Place", "Source", "attach", "fact_rows", "keys_behind", "shaped"]


@dataclass(frozen=True, slots=True)
class Missing:
    """A required row that is not there: the look-up's path in the document, the table, the values looked for."""

    path: str
    table: str
    where: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """What a part of a document was read from."""

    path: str
    table: str
    where: Mapping[str, Any]
    rows: int


@dataclass(slots=True)
class Place:
    """A row whose look-ups are wanted, the object that they are put into, and the document that it belongs to."""

    root: int
    row: Row
    body: dict[str, Any]


def attach(
    tables: Tables,
    lookups: Mapping[str, Lookup],
    places: Sequence[Place],
    on_missing: Callable[[int, Missing], None],
    on_source: Callable[[int, Source], None] | None = None,
    path: str = "",
) -> None:
    """Put each look-up's value into the places' bodies; a required row that is missing is told, its field is null."""
    for name, lookup in lookups.items():
        where = f"{path}{name}"
        found: list[list[Row]] = [[place.row] for place in places]
        for number, hop in enumerate(lookup.hops):
            last = number == len(lookup.hops) - 1
            columns = lookup.columns() if last else sorted({*hop.where, *lookup.hops[number + 1].where.values()})
            above = [rows[0] if rows else None for rows in found]
            found = _step(tables, hop, columns, above)
            for place, row, rows in zip(places, above, found, strict=True):
                values = {column: row[of] for column, of in hop.where.items()} if row is not None else {}
                if on_source is not None and row is not None:
                    on_source(place.root, Source(where, hop.table, values, len(rows)))
                if not rows and row is not None and lookup.required and not lookup.many:
                    on_missing(place.root, Missing(where, hop.table, values))
        below: list[Place] = []
        for place, rows in zip(places, found, strict=True):
            place.body[name] = _value(lookup, rows, place.root, below)
        if below and lookup.lookups:
            attach(tables, lookup.lookups, below, on_missing, on_source, f"{where}.")


def shaped(fields: Fields, row: Row) -> dict[str, Any]:
    """The object that `fields` makes of a row."""
    return {
        name: row[shape] if isinstance(shape, str) else {field: row[column] for field, column in shape.items()}
        for name, shape in fields.items()
    }


def keys_behind(
    tables: Tables, fact: Fact, path: Path, signals: Mapping[tuple[Any, ...], int], most: int
) -> dict[Any, int] | None:
    """Keys of the documents that read, by `path`, a row with these values in its `match` columns.

    `signals`: values → version; each key gets the greatest version of the rows that lead to it. None when a step of the
    way back has more than `most` rows: no more than these are read.
    """
    wanted = dict(signals)
    for number in range(len(path.hops) - 1, -1, -1):
        match = tuple(path.hops[number].where.values())
        above = path.hops[number - 1].table if number else fact.table
        columns = tuple(path.hops[number - 1].where) if number else tuple(fact.key)
        found: dict[tuple[Any, ...], int] = {}
        if wanted:
            read = tables.rows if number else functools.partial(fact_rows, tables)
            rows = read(above, sorted({*columns, *match}), match, sorted(wanted), most + 1)
            if len(rows) > most:
                return None
            for row in rows:
                value = tuple(row[column] for column in columns)
                version = wanted.get(tuple(row[column] for column in match))
                if version is not None and None not in value:
                    found[value] = max(version, found.get(value, 0))
        wanted = found
    return wanted


def fact_rows(
    tables: Tables, table: str, columns: Sequence[str], match: Sequence[str], values: Keys, most: int | None = None
) -> list[Row]:
    """Rows of the fact table; one that was dropped has none. A running assembler knows that it was there."""
    try:
        return tables.rows(table, columns, match, values, most)
    except NoSuchTable:
        return []


def _step(tables: Tables, hop: Hop, columns: Sequence[str], above: Sequence[Row | None]) -> list[list[Row]]:
    """For each row above, the rows of the hop's table that belong to it."""
    match = tuple(hop.where)
    wanted = [None if row is None else tuple(row[of] for of in hop.where.values()) for row in above]
    values = sorted({value for value in wanted if value is not None and None not in value})
    index: dict[tuple[Any, ...], list[Row]] = {}
    if values:
        for row in tables.rows(hop.table, columns, match, values):
            index.setdefault(tuple(row[column] for column in match), []).append(row)
    return [index.get(value, []) if value is not None else [] for value in wanted]


def _value(lookup: Lookup, rows: Sequence[Row], root: int, below: list[Place]) -> Any:
    ordered = sorted(rows, key=lambda row: tuple(_sortable(row[name]) for name in lookup.order_by))
    if not lookup.many:
        ordered = ordered[:1] if lookup.take == "first" else ordered[-1:]
    values: list[Any] = []
    for row in ordered:
        if lookup.value is not None:
            values.append(row[lookup.value])
            continue
        body = shaped(lookup.fields, row)
        below.append(Place(root, row, body))
        values.append(body)
    if lookup.many:
        return values
    return values[0] if values else None


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value)
