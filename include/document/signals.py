"""Signals: which documents a stretch of the log asks for. Pure; runs in Spark's workers and is merged by the driver.

| record | signal |
|---|---|
| fact row, before or after in a final state, or a delete | its key (both images' keys, should they differ) |
| fact row, transient | filtered: a final one follows |
| row of a signal table, a column that documents show has changed | its values of the path's columns |
| the same, nothing that documents show has changed | filtered |
| the same, documents depend on a column that no record shows | its values: it may have changed (`document.masks`) |
| row of a table under `corrected` | the same, an insert is filtered: it comes with a fact row |
| row of a looked-up table under neither | filtered; counted where it changed or deleted what documents show |
| fact row, where the table is under one of both | both: its key, and its values of the path's columns |
| tombstone of a change topic | filtered: the delete's envelope stands before it |
| control record of one of these tables | its floor: all keys whose newest version is below |
| control record of a changed schema | columns are to be looked at anew |
| request | the request |
| anything that cannot be read | set aside with its bytes, coordinates and reason |

Signals are folded to the newest version of a key; what is folded is counted. Conservation, over input records:
`read = applied + superseded + filtered + set_aside`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from include.document.definition import DocumentDefinition, JoinPath
from include.errors import InvalidRecord
from include.log import topics
from include.log.control import ControlRecord
from include.log.ports import Record
from include.log.requests.records import Request
from include.record import version as versions
from include.record.change import Change, RowImage

__all__ = ["MOST_KEYS", "MOST_ROWS", "Inputs", "SignalFold", "Signals", "UnreadableRecord"]

DocumentKey = tuple[Any, ...]
MOST_ROWS: Final = 100_000
"""Rows of signal tables that a batch remembers; more stand for all documents."""
MOST_KEYS: Final = 1_000_000
"""The same, of the fact table's keys."""


@dataclass(frozen=True)
class UnreadableRecord:
    """An input record that could not be read."""

    record: Record
    reason: str


@dataclass
class Signals:
    """What was found. Versions are the newest of each key."""

    keys: dict[DocumentKey, int] = field(default_factory=dict)
    rows: dict[tuple[int, DocumentKey], int] = field(default_factory=dict)
    """(number of the path in `definition.paths()`, values of its `match` columns) → version."""
    floor: int = 0
    altered: bool = False
    """Columns of a table of the database have changed."""
    everything: bool = False
    """More was found than a batch remembers, and forgotten: every document may be meant."""
    requests: list[Request] = field(default_factory=list)
    set_aside: list[UnreadableRecord] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """read, applied, superseded, filtered, set_aside."""
    unheard: Counter[str] = field(default_factory=Counter)
    """Table that signals nothing → changes and deletes of what documents show of it."""

    def merge(self, other: Signals) -> None:
        """Take what another stretch of the log asks for."""
        again = _take_newest(self.keys, other.keys) + _take_newest(self.rows, other.rows)
        self.counts.update(other.counts)
        self.unheard.update(other.unheard)
        self.counts["applied"] -= again
        self.counts["superseded"] += again
        self.floor = max(self.floor, other.floor)
        self.everything |= other.everything
        self.altered |= other.altered
        self.bound()
        self.requests += other.requests
        self.set_aside += other.set_aside

    def bound(self) -> None:
        """Forget rows or keys that are too many."""
        for found, most in ((self.rows, MOST_ROWS), (self.keys, MOST_KEYS)):
            if len(found) > most:
                self.everything = True
                found.clear()


@dataclass(frozen=True)
class Inputs:
    """The topics that an assembler reads, and what each is for."""

    topic: str
    definition: DocumentDefinition

    @property
    def fact(self) -> str:
        """Change topic of the fact table."""
        return self._change(self.definition.fact.table)

    @property
    def control(self) -> str:
        """Control records of the source."""
        return topics.control(self.definition.source)

    @property
    def requests(self) -> str:
        """Requests for the output topic."""
        return topics.requests(self.topic)

    @property
    def cut_at(self) -> str:
        """The resolved topic at whose records batches end."""
        return topics.source_resolved(self.definition.source)

    def tables(self) -> dict[str, list[tuple[int, JoinPath]]]:
        """Change topic of each signal table → the paths (with their numbers) that begin there."""
        out: dict[str, list[tuple[int, JoinPath]]] = {}
        for number, path in enumerate(self.definition.paths()):
            out.setdefault(self._change(path.table), []).append((number, path))
        return out

    def all(self) -> list[str]:
        """Every input topic."""
        return list(dict.fromkeys([self.fact, *self.tables(), *self.unheard(), self.control, self.requests]))

    def unheard(self) -> dict[str, list[JoinPath]]:
        """Change topic of each looked-up table that signals nothing → the ways that lead to it."""
        tables = self.definition.unheard()
        return {
            self._change(table): [way for way in self.definition.ways() if way.table == table]
            for table in tables
            if table != self.definition.fact.table
        }

    def corrected(self) -> set[str]:
        """Change topics of tables whose inserts signal nothing."""
        return {self._change(table) for table in self.definition.corrected}

    def _change(self, table: str) -> str:
        return topics.change(self.definition.source, self.definition.database, table)


class SignalFold:
    """Reads records, keeps the newest signal of each key."""

    def __init__(self, inputs: Inputs, decode: Callable[[bytes], Any]) -> None:
        """`decode` reads a value in the wire format; raises `InvalidRecord`."""
        self.signals = Signals()
        self._definition = inputs.definition
        self._decode = decode
        self._fact, self._control, self._requests = inputs.fact, inputs.control, inputs.requests
        self._tables = inputs.tables()
        self._hidden = inputs.definition.masks.hidden
        self._corrected, self._unheard = inputs.corrected(), inputs.unheard()
        self._obeyed = {inputs.definition.fact.table, *(path.table for path in inputs.definition.paths())}

    def on_record(self, record: Record) -> None:
        """Take one record; what cannot be read is set aside, other errors are raised."""
        self.signals.counts["read"] += 1
        try:
            outcome = self._take(record)
        except InvalidRecord as error:
            self.signals.set_aside.append(UnreadableRecord(record, str(error)))
            outcome = "set_aside"
        self.signals.counts[outcome] += 1
        self.signals.bound()

    def _take(self, record: Record) -> str:
        if record.topic == self._requests:
            if record.value is None:
                return "filtered"
            self.signals.requests.append(Request.parse(record.value))
            return "applied"
        if record.topic == self._control:
            return self._on_control(record)
        if record.value is None:
            return "filtered"
        version = versions.from_headers(record.headers)
        change = self._change(record.value)
        try:
            return self._on_change(record.topic, change, version)
        except KeyError as error:
            raise InvalidRecord("row lacks a column that a document needs", reason=f"column {error}") from error

    def _on_change(self, topic: str, change: Change, version: int) -> str:
        if ways := self._unheard.get(topic):
            before, after = change.before, change.after
            # As a rule a row that is inserted comes with the fact row whose document shows it.
            if before is not None and (after is None or any(not self._same(before, after, way) for way in ways)):
                self.signals.unheard[ways[0].table] += 1
            return "filtered"
        of_fact = self._on_fact(change, version) if topic == self._fact else "filtered"
        of_table = "filtered"
        if topic in self._tables and not (change.before is None and topic in self._corrected):
            of_table = self._on_table(change, version, self._tables[topic])
        return of_table if of_fact == "filtered" else of_fact

    def _change(self, value: bytes) -> Change:
        decoded = self._decode(value)
        try:
            return Change.from_envelope(decoded)
        except (KeyError, TypeError) as error:
            raise InvalidRecord("value is not a change", reason=repr(error)) from error

    def _on_control(self, record: Record) -> str:
        if record.value is None:
            return "filtered"
        control = ControlRecord.parse(record.value)
        self.signals.altered |= control.kind == "schema" and control.database == self._definition.database
        if control.database != self._definition.database or control.table not in self._obeyed or control.floor == 0:
            return "filtered"
        if self.signals.floor:
            self.signals.floor = max(control.floor, self.signals.floor)
            return "superseded"
        self.signals.floor = control.floor
        return "applied"

    def _on_fact(self, change: Change, version: int) -> str:
        fact = self._definition.fact
        images = [image for image in (change.before, change.after) if image is not None]
        if change.op != "d" and not any(image[fact.state] in fact.final for image in images):
            return "filtered"
        return self._newest(self.signals.keys, [_key(image, fact.key) for image in images], version)

    def _on_table(self, change: Change, version: int, paths: list[tuple[int, JoinPath]]) -> str:
        """A new row is no signal that anything shows it yet, but a document that was set aside may wait for it."""
        keys: list[tuple[int, DocumentKey]] = []
        for number, path in paths:
            before, after = change.before, change.after
            if before is not None and after is not None and self._same(before, after, path):
                continue
            images = [image for image in (before, after) if image is not None]
            keys += [(number, _key(image, path.match)) for image in images]
        return self._newest(self.signals.rows, keys, version) if keys else "filtered"

    def _same(self, before: RowImage, after: RowImage, path: JoinPath) -> bool:
        """Whether all is the same that documents show; no two images are where the policy keeps some of it back."""
        hidden = any((path.table, name) in self._hidden for name in path.columns)
        return not hidden and all(before[name] == after[name] for name in path.columns)

    def _newest(self, into: dict[Any, int], keys: Iterable[Any], version: int) -> str:
        """Fold; a key with a null names no row that a document could show."""
        both = total = 0
        for key in keys:
            if None not in (key[1] if into is self.signals.rows else key):
                total += 1
                both += _take_newest(into, {key: version})
        return "filtered" if not total else "superseded" if both == total else "applied"


def _take_newest(mine: dict[Any, int], theirs: Mapping[Any, int]) -> int:
    """Merge; the number of keys that both had."""
    both = 0
    for key, version in theirs.items():
        both += key in mine
        mine[key] = max(version, mine.get(key, 0))
    return both


def _key(row: RowImage, columns: Iterable[str]) -> DocumentKey:
    return tuple(row[name] for name in columns)
