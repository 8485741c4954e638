"""Decides what a key's document is, from the rows of one consistent moment. Pure: it knows no engine, log or server.

| rows of the key in the snapshot | outcome |
|---|---|
| none | tombstone |
| transient ones only | skipped: a final signal follows |
| a final one | document of the newest final row (greatest `newest_by`) |
| the same, a required look-up is missing | set aside with the values that were looked for |
| the same, a hook fails on it | set aside with what the hook raised |

A document shows the snapshot, which is never older than the signal that asked for it: who begins it sees to that
(`document.reading.read_after`). Reading *later* is harmless: what changed in between signals too. What the source's
policy masks is masked before hooks see the body (`document.masks`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from include.document.definition import DocumentDefinition, hook
from include.document.reading.lookup import LookupPlace, MissingRow, PartSource, attach, fact_rows, shaped, sortable
from include.document.reading.tables import TableRow, Tables

__all__ = ["AssembledChunk", "Assembler"]

DocumentKey = tuple[Any, ...]


@dataclass
class AssembledChunk:
    """What became of a chunk of keys: bodies (None is a tombstone), keys skipped, keys with rows that are missing."""

    documents: dict[DocumentKey, dict[str, Any] | None] = field(default_factory=dict)
    skipped: list[DocumentKey] = field(default_factory=list)
    incomplete: dict[DocumentKey, list[MissingRow]] = field(default_factory=dict)
    failed: dict[DocumentKey, str] = field(default_factory=dict)
    """Keys whose rows a hook cannot deal with, and why."""


class Assembler:
    """Makes the documents of one definition."""

    def __init__(self, definition: DocumentDefinition) -> None:
        self.definition = definition
        self._columns = definition.columns()
        self._hooks = {name: hook(computed.hook) for name, computed in definition.computed.items()}

    def assemble(
        self,
        tables: Tables,
        keys: Sequence[DocumentKey],
        on_source: Callable[[DocumentKey, PartSource], None] | None = None,
    ) -> AssembledChunk:
        """Read and decide for `keys` (distinct); each is in exactly one part of the answer."""
        fact, masks = self.definition.fact, self.definition.masks
        rows: dict[DocumentKey, list[TableRow]] = {key: [] for key in keys}
        for row in fact_rows(tables, fact.table, self._columns, fact.key, keys):
            found_for = rows.get(tuple(row[name] for name in fact.key))
            if found_for is not None:  # a collation may find keys that are not the one asked for
                found_for.append(row)
        out = AssembledChunk()
        chosen: list[DocumentKey] = []
        places: list[LookupPlace] = []
        for key, found in rows.items():
            final = [row for row in found if row[fact.state] in fact.final]
            if on_source is not None:
                on_source(key, PartSource("", fact.table, dict(zip(fact.key, key, strict=True)), len(found)))
            if not found:
                out.documents[key] = None
            elif not final:
                out.skipped.append(key)
            else:
                newest = max(final, key=lambda row: sortable(row[fact.newest_by]))
                shown = masks.row(fact.table, newest, tables.columns)
                places.append(LookupPlace(len(chosen), newest, shaped(self.definition.fields, shown)))
                chosen.append(key)
        missing: dict[int, list[MissingRow]] = {}
        attach(
            tables,
            self.definition.lookups,
            places,
            lambda root, what: missing.setdefault(root, []).append(what),
            None if on_source is None else lambda root, source: on_source(chosen[root], source),
            masks=masks,
        )
        for lookup_place in places:
            key = chosen[lookup_place.root]
            if lookup_place.root in missing:
                out.incomplete[key] = missing[lookup_place.root]
            else:
                self._compute(key, lookup_place.body, out)
        return out

    def _compute(self, key: DocumentKey, body: Mapping[str, Any], out: AssembledChunk) -> None:
        computed: dict[str, Any] = {}
        for name, compute in self._hooks.items():
            try:
                computed[name] = compute(body)
            except Exception as error:  # noqa: BLE001 - whatever a deployment's own code raises concerns this document
                out.failed[key] = f"{name}: its hook failed: {type(error).__name__}: {error}"
                return
        out.documents[key] = {**body, **computed}
