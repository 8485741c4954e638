"""Compares the rows of leaves that differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from include.source.hashes.columns import ComparedColumn
from include.source.hashes.printed import values_of

__all__ = ["DifferingRow", "RowDifferenceKind", "differences"]

RowDifferenceKind = Literal["missing", "extra", "stale", "altered"]


@dataclass(frozen=True, slots=True)
class DifferingRow:
    """A row that the copy lacks (`missing`), that it alone has (`extra`), or that is another there.

    `stale`: as it once was, which the topic has a newer one than. `altered`: any other. `key`: the text of its key.
    `columns`: that are not the same, of a row that both have.
    """

    kind: RowDifferenceKind
    key: str
    columns: tuple[str, ...] = ()


def differences(
    database: Mapping[str, str],
    copy: Mapping[str, str],
    columns: Sequence[ComparedColumn],
    earlier: Callable[[Collection[str]], Mapping[str, Collection[str]]],
) -> list[DifferingRow]:
    """Compares the rows of the same leaves; gives those that differ, in the order of the keys' texts.

    Args:
        database: key's text → row's text.
        copy: the same of the copy.
        columns: that a row's text has.
        earlier: key → texts of the rows that the topic had for it before its newest; asked once, where rows differ.
    """
    both = database.keys() & copy.keys()
    other = sorted(key for key in both if database[key] != copy[key])
    known = earlier(other) if other else {}
    rows = [DifferingRow("missing", key) for key in database.keys() - both]
    rows += [DifferingRow("extra", key) for key in copy.keys() - both]
    for key in other:
        pairs = zip(columns, values_of(columns, database[key]), values_of(columns, copy[key]), strict=True)
        differing = tuple(each.column.name for each, one, another in pairs if one != another)
        rows.append(DifferingRow("stale" if copy[key] in known.get(key, ()) else "altered", key, differing))
    return sorted(rows, key=lambda each: each.key)
