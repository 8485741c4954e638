"""Walks the look-ups of a definition set-wise: one read for each table and depth, whatever the number of documents.

Forwards (`attach`) from fact rows to what their documents show; backwards (`keys_behind`) from changed rows of a
signal table to the keys of the documents that show them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from include.document.definition import DocumentFields, FactTable, Hop, JoinPath, Lookup
from include.document.masks import NOTHING_MASKED, DocumentMasks
from include.document.reading.tables import NoSuchTable, RowKeys, TableRow, Tables

__all__ = [
    "LookupPlace",
    "MissingRow",
    "PartSource",
    "attach",
    "fact_rows",
    "keys_behind",
    "shaped",
    "sortable",
    "spelled",
]


@dataclass(frozen=True, slots=True)
class MissingRow:
    """A required row that is not there: the look-up's path in the document, the table, the values looked for."""

    path: str
    table: str
    where: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PartSource:
    """What a part of a document was read from."""

    path: str
    table: str
    where: Mapping[str, Any]
    rows: int


@dataclass(slots=True)
class LookupPlace:
    """A row whose look-ups are wanted, the object that they are put into, and the document that it belongs to."""

    root: int
    row: TableRow
    body: dict[str, Any]


def attach(
    tables: Tables,
    lookups: Mapping[str, Lookup],
    places: Sequence[LookupPlace],
    on_missing: Callable[[int, MissingRow], None],
    on_source: Callable[[int, PartSource], None] | None = None,
    path: str = "",
    masks: DocumentMasks = NOTHING_MASKED,
) -> None:
    """Puts each look-up's value into the places' bodies; a required row that is missing is told, its field is null.

    Args:
        tables: one snapshot of the database.
        lookups: field → look-up.
        places: rows whose look-ups are wanted; their bodies are filled.
        on_missing: hears of a document's number and its missing row.
        on_source: hears of a document's number and what a part of it was read from.
        path: of the look-ups in the document: empty, or with a point at its end.
        masks: for what leaves: values of fields, and those looked for that are told.

    Raises:
        NoSuchTable: a table that a look-up reads is not there.
        Transient: the database does not answer.
    """
    for name, lookup in lookups.items():
        where = f"{path}{name}"
        rows_by_place: list[list[TableRow]] = [[place.row] for place in places]
        for number, hop in enumerate(lookup.hops):
            last = number == len(lookup.hops) - 1
            columns = lookup.columns() if last else sorted({*hop.where, *lookup.hops[number + 1].where.values()})
            above = rows_by_place
            values = functools.partial(_values, tables, masks, hop)
            telling = on_source and _telling(on_source, places, where, hop.table, values)
            rows_by_place = _step(tables, hop, columns, above, telling)
            for lookup_place, rows_above, rows in zip(places, above, rows_by_place, strict=True):
                if not rows and rows_above and lookup.required and not lookup.many:
                    on_missing(lookup_place.root, MissingRow(where, hop.table, values(rows_above[0])))
        below: list[LookupPlace] = []
        show = functools.partial(masks.row, lookup.table, columns=tables.columns)
        for lookup_place, rows in zip(places, rows_by_place, strict=True):
            lookup_place.body[name] = _value(lookup, rows, lookup_place.root, below, show)
        if below and lookup.lookups:
            attach(tables, lookup.lookups, below, on_missing, on_source, f"{where}.", masks)


def shaped(fields: DocumentFields, row: TableRow) -> dict[str, Any]:
    """The object that `fields` makes of a row."""
    return {
        name: row[shape] if isinstance(shape, str) else {field: row[column] for field, column in shape.items()}
        for name, shape in fields.items()
    }


def keys_behind(
    tables: Tables, fact: FactTable, path: JoinPath, signals: Mapping[tuple[Any, ...], int], most: int
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
        read = tables.rows if number else functools.partial(fact_rows, tables)
        versions_above: dict[tuple[Any, ...], int] = {}
        equal = _Equal(tables, above, match)
        versions: dict[tuple[Any, ...], int] = {}
        for values in equal.learn(wanted):
            versions[equal.of(values)] = max(wanted[values], versions.get(equal.of(values), 0))
        if wanted:
            rows = read(above, sorted({*columns, *match}), match, equal.one_of_each(wanted), most + 1)
            if len(rows) > most:
                return None
            equal.learn(_key(row, match) for row in rows)
            for row in rows:
                value, version = _key(row, columns), versions.get(equal.of(_key(row, match)))
                if version is not None and None not in value:
                    versions_above[value] = max(version, versions_above.get(value, 0))
        wanted = versions_above
    return wanted


def fact_rows(
    tables: Tables, table: str, columns: Sequence[str], match: Sequence[str], values: RowKeys, most: int | None = None
) -> list[TableRow]:
    """Reads rows of the fact table; one that was dropped has none. A running assembler knows that it was there.

    Args:
        tables: one snapshot of the database.
        table: name of the fact table.
        columns: that are read.
        match: columns that rows are found by.
        values: of `match`; they hold no None.
        most: distinct rows at most; None: all rows.

    Raises:
        Transient: the database does not answer.
    """
    try:
        return tables.rows(table, columns, match, values, most)
    except NoSuchTable:
        return []


def spelled(tables: Tables, table: str, columns: Sequence[str], values: RowKeys) -> list[tuple[Any, ...]]:
    """All values of the columns that are held equal to these: of texts that are, a walk in their order gives one."""
    if not any(isinstance(part, str) for value in values for part in value):
        return list(values)
    return [_key(row, columns) for row in tables.rows(table, columns, columns, values, sys.maxsize)]


class _Equal:
    """Which values the columns `match` of a table hold equal: `a` and `A` where the column's collation does."""

    def __init__(self, tables: Tables, table: str, match: Sequence[str]) -> None:
        self._ask = functools.partial(tables.folded, table, match)
        self._known: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def learn(self, values: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Ask for values that are not known; the values."""
        given = list(values)
        self._known.update(self._ask(sorted(set(given) - self._known.keys())))
        return given

    def of(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same for all that are held equal."""
        return self._known.get(value, value)

    def one_of_each(self, values: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Sorted: of those that are held equal one, else a row would be found by two questions."""
        return sorted({self.of(value): value for value in values}.values())


def _step(
    tables: Tables,
    hop: Hop,
    columns: Sequence[str],
    above: Sequence[Sequence[TableRow]],
    on_rows: Callable[[int, TableRow, int], None] | None,
) -> list[list[TableRow]]:
    """For the rows above, of each document, the rows of the hop's table that belong to them."""
    match = tuple(hop.where)
    of = tuple(hop.where.values())
    wanted = {value for rows in above for row in rows if None not in (value := _key(row, of))}
    equal = _Equal(tables, hop.table, match)
    index: dict[tuple[Any, ...], list[TableRow]] = {}
    if wanted:
        found = tables.rows(hop.table, columns, match, equal.one_of_each(equal.learn(wanted)))
        equal.learn(_key(row, match) for row in found)
        for row in found:
            index.setdefault(equal.of(_key(row, match)), []).append(row)
    out: list[list[TableRow]] = []
    for number, rows in enumerate(above):
        out.append([])
        for row in rows:
            below = index.get(equal.of(_key(row, of)), [])
            out[-1] += below
            if on_rows is not None:
                on_rows(number, row, len(below))
    return out


def _telling(
    on_source: Callable[[int, PartSource], None],
    places: Sequence[LookupPlace],
    path: str,
    table: str,
    values: Callable[[TableRow], TableRow],
) -> Callable[[int, TableRow, int], None]:
    return lambda place, row, rows: on_source(places[place].root, PartSource(path, table, values(row), rows))


def _values(tables: Tables, masks: DocumentMasks, hop: Hop, above: TableRow) -> TableRow:
    return masks.values(hop.table, {column: above[of] for column, of in hop.where.items()}, tables.columns)


def _key(row: TableRow, columns: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)


def _value(
    lookup: Lookup, rows: Sequence[TableRow], root: int, below: list[LookupPlace], show: Callable[[TableRow], TableRow]
) -> Any:
    # Where `order_by` leaves two rows equal their other columns decide: the same rows make the same document.
    names = [*lookup.order_by, *sorted(rows[0].keys() - set(lookup.order_by))] if len(rows) > 1 else []
    ordered = sorted(rows, key=lambda row: tuple(sortable(row[name]) for name in names))
    if not lookup.many:
        ordered = ordered[:1] if lookup.take == "first" else ordered[-1:]
    values: list[Any] = []
    for row in ordered:
        if lookup.value is not None:
            values.append(show(row)[lookup.value])
            continue
        body = shaped(lookup.fields, show(row))
        below.append(LookupPlace(root, row, body))
        values.append(body)
    if lookup.many:
        return values
    return values[0] if values else None


def sortable(value: Any) -> tuple[bool, Any]:
    """A key to sort by: null before all."""
    return (value is not None, value)
