"""Documents behind a change that too many of them show: found a page at a time, backwards by their look-ups' way.

A `Reach` stands for all documents that find, by its hops, a row with one of its values. A request keeps it, and each
page is one step back: rows of the table above the last hop that have one of the values, by an index of that column. At
the fact table they are keys of documents. At a table between they are values for the way that is left, a reach of its
own. Its request goes before the one that it came from, so that no more of them are open than the way has steps.

Pages are read in snapshots of their own, and yet none of these documents stays as it was. Where each row on a
document's way has stood unchanged since the request was made, the walk comes by it once: pages go on in the order of
columns that have not changed. A row that came or changed meanwhile, or now has another value, is a change behind the
request's, thus a signal of its own: of the fact table, or of a table under `signals`. (A table between that is not
under `signals` moves documents unnoticed, as it does without a request.)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

from include.document.definition import FactTable, Hop
from include.document.reading.lookup import spelled
from include.document.reading.tables import KEYS_AT_ONCE, Tables

__all__ = ["Reach", "WalkPage", "WalkPlace", "page", "values_of", "values_text", "way"]

KeyValues = tuple[Any, ...]

WalkPlace = tuple[int, KeyValues | None]
"""Where a walk is: number of the value whose rows are next, and the last of them that was read."""


@dataclass(frozen=True)
class Reach:
    """Documents that find, in the table above the last hop, a row with one of `values` in the hop's columns."""

    hops: tuple[Hop, ...]
    values: tuple[KeyValues, ...]


@dataclass(frozen=True)
class WalkPage:
    """One step of a walk: `found` are keys of documents, or values for `rest`; where the next one begins."""

    found: list[KeyValues]
    rest: tuple[Hop, ...]
    next: WalkPlace
    finished: bool


def page(tables: Tables, fact: FactTable, order: Sequence[str], reach: Reach, place: WalkPlace, most: int) -> WalkPage:
    """Reads the next page of a walk; few rows of each of many values end a page too.

    Args:
        tables: one snapshot of the database.
        fact: the documents' fact table.
        order: columns of the fact table to walk it by, the key at the end of them.
        reach: the documents that are looked for.
        place: where the page begins.
        most: rows that are read, in all.

    Raises:
        NoSuchTable: the table that is walked is not there.
        Transient: the database does not answer.
    """
    *rest, last = reach.hops
    table = rest[-1].table if rest else fact.table
    wanted = list(rest[-1].where) if rest else fact.key
    by = wanted if rest else order
    number, after = place
    rows: list[KeyValues] = []
    if after is not None and len(after) != len(by):  # The order's column was altered: this value from its beginning.
        after = None
    for values in reach.values[number : number + KEYS_AT_ONCE]:
        left = most - len(rows)
        found = tables.keys_after(table, by, after, left, dict(zip(last.where.values(), values, strict=True)))
        rows += found
        if len(found) == left:
            after = found[-1]
            break
        number, after = number + 1, None
    distinct = dict.fromkeys(row[-len(wanted) :] for row in rows)
    return WalkPage(
        [each for each in spelled(tables, table, wanted, list(distinct)) if None not in each],
        tuple(rest),
        (number, after),
        number == len(reach.values),
    )


def way(fact: FactTable, hops: Sequence[Hop]) -> str:
    """The hops as a text: `orders.partner_id = partners.id, partners.region_id = regions.id`."""
    above, steps = fact.table, []
    for hop in hops:
        steps.append(" and ".join(f"{above}.{of} = {hop.table}.{column}" for column, of in hop.where.items()))
        above = hop.table
    return ", ".join(steps)


def values_text(values: KeyValues) -> str:
    """Values as JSON; what that does not have is named."""
    return orjson.dumps(list(values), default=_named).decode()


def values_of(text: str) -> KeyValues:
    """Inverse of `values_text`."""
    return tuple(json.loads(text, object_hook=_value))


def _named(value: Any) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    raise TypeError(f"a look-up by {type(value).__name__}")


def _value(named: dict[str, str]) -> Any:
    return bytes.fromhex(named["bytes"]) if "bytes" in named else Decimal(named["decimal"])
