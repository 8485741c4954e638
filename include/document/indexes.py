"""Columns that an assembler looks rows up by, and whether the database has an index for them.

Without one each batch reads the table whole, and one that takes longer than a connection's patience is tried for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from include.document.definition import DocumentDefinition

__all__ = ["LookupColumns", "looked_up", "unindexed"]


@dataclass(frozen=True, slots=True)
class LookupColumns:
    """Rows of `table` are found by `columns`; `why` says for what."""

    table: str
    columns: tuple[str, ...]
    why: str

    @property
    def fix(self) -> str:
        """The statement that mends it."""
        names = ", ".join(f"`{name}`" for name in self.columns)
        return f"ALTER TABLE `{self.table}` ADD INDEX ({names})"


def looked_up(definition: DocumentDefinition) -> list[LookupColumns]:
    """Every (table, columns) once: the fact's key, look-ups, and the ways back from signal tables."""
    found: dict[tuple[str, tuple[str, ...]], LookupColumns] = {}
    for each in _looked_up(definition):
        found.setdefault((each.table, each.columns), each)
    return list(found.values())


def unindexed(definition: DocumentDefinition, indexed: Callable[[str, tuple[str, ...]], bool]) -> list[LookupColumns]:
    """Those that the database has no index for; `indexed` asks it."""
    return [each for each in looked_up(definition) if not indexed(each.table, each.columns)]


def _looked_up(definition: DocumentDefinition) -> Iterator[LookupColumns]:
    fact = definition.fact
    yield LookupColumns(fact.table, tuple(fact.key), "the document's rows")
    for path in definition.ways():
        hop = path.hops[-1]
        yield LookupColumns(hop.table, tuple(hop.where), "a look-up")
    for path in definition.paths():
        above = fact.table
        for hop in path.hops:
            yield LookupColumns(above, tuple(hop.where.values()), f"the way back from {path.table}")
            above = hop.table
