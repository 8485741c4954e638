"""Folds a topic to the documents that an index should hold: each key's newest record below a cut, no tombstones.

Compaction may have taken older records of a key, never the newest, so the result is the same before and after it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from typing_extensions import override

from include.audit.search.bounds import NO_LOWS, AuditBounds, Window
from include.audit.search.iblt import Histogram, add_up
from include.audit.search.views.key_list import ListedKeys, SortedKeys
from include.errors import InvalidRecord, Terminal
from include.index.digest import BUCKET_BITS, bucket, state_hash
from include.index.feed import Feed
from include.index.states import States
from include.log.ports import LogReader, Record

__all__ = [
    "ExpectedDocuments",
    "ExpectedKind",
    "ExpectedSide",
    "FoldedExpected",
    "Reading",
    "RecordState",
    "fold",
    "reading_of",
    "records_below",
]

ExpectedKind = Literal["living", "deleted", "spoilt"]
"""living: a document. deleted: a tombstone. spoilt: its body cannot be read, so the indexer set it aside."""
_KINDS: Final[tuple[ExpectedKind, ...]] = ("living", "deleted", "spoilt")


@dataclass(frozen=True, slots=True)
class RecordState:
    """The state that a record gives its document; `state` is 0 unless it is living."""

    doc_id: str
    version: int
    partition: int
    offset: int
    kind: ExpectedKind
    state: int = 0


Reading = Callable[[Record], RecordState | None]
"""The state that a record makes, by the indexer's own functions; None for one that speaks of no document.

Raises `InvalidRecord` for one without a readable key or version.
"""


class ExpectedSide(Protocol):
    """The expected side of an audit."""

    unreadable: int

    def narrow(self, bounds: AuditBounds) -> None:
        """Leave out from now on whose newest record is unproven, or of another part, but for `of`."""

    @property
    def living(self) -> int:
        """The number of documents that should be there."""

    def deleted(self) -> Iterator[str]:
        """Ids of documents whose newest record is a tombstone."""

    def histograms(self, bits: int) -> tuple[Histogram, ...]:
        """States of the living, 2^`bits` buckets in each view."""

    def find(self, states: Collection[int]) -> list[RecordState]:
        """The living with one of these states."""

    def of(self, doc_ids: Collection[str]) -> dict[str, RecordState]:
        """The expected state of each document; those that the topic does not know are left out."""

    def in_buckets(self, bits: int, places: Collection[int]) -> list[RecordState]:
        """The living in these buckets of the first view."""

    def spoilt(self) -> list[RecordState]:
        """Documents whose newest record was set aside for its body."""

    def keys(self, lows: Window = NO_LOWS) -> SortedKeys:
        """Ids of the living and the spoilt whose newest record lies from `lows` on."""


class FoldedExpected(ExpectedSide):
    """In this process: some 200 bytes for each key."""

    def __init__(self) -> None:
        self.unreadable = 0
        self._rows: dict[str, int] = {}
        self._versions, self._offsets, self._states = array("q"), array("q"), array("Q")
        self._partitions, self._kinds = array("i"), bytearray()
        self._bounds = AuditBounds({})

    def add(self, found: RecordState) -> None:
        """Take a record in, in any order: the greatest version stays, of equal ones the later."""
        row = self._rows.setdefault(found.doc_id, len(self._rows))
        if row == len(self._versions):
            self._versions.append(-1)
            self._offsets.append(0)
            self._states.append(0)
            self._partitions.append(0)
            self._kinds.append(0)
        if found.version >= self._versions[row]:
            self._versions[row], self._offsets[row], self._states[row] = found.version, found.offset, found.state
            self._partitions[row], self._kinds[row] = found.partition, _KINDS.index(found.kind)

    @override
    def narrow(self, bounds: AuditBounds) -> None:
        self._bounds = bounds

    @property
    def _narrowed(self) -> bool:
        return bool(self._bounds.starts) or self._bounds.part is not None

    @property
    def living(self) -> int:
        """The number of documents that should be there."""
        if not self._narrowed:
            return self._kinds.count(_KINDS.index("living"))
        return sum(1 for _ in self._of_kind("living"))

    @override
    def deleted(self) -> Iterator[str]:
        rows = frozenset(self._of_kind("deleted"))
        return (doc_id for doc_id, row in self._rows.items() if row in rows)

    @override
    def histograms(self, bits: int) -> tuple[Histogram, ...]:
        if not self._narrowed:
            return add_up((s for s, kind in zip(self._states, self._kinds, strict=True) if not kind), bits)
        return add_up((self._states[row] for row in self._of_kind("living")), bits)

    @override
    def find(self, states: Collection[int]) -> list[RecordState]:
        wanted = set(states)
        return self._where(lambda row: self._states[row] in wanted)

    @override
    def of(self, doc_ids: Collection[str]) -> dict[str, RecordState]:
        return {i: self._state(i, self._rows[i]) for i in doc_ids if i in self._rows}

    @override
    def in_buckets(self, bits: int, places: Collection[int]) -> list[RecordState]:
        wanted, shift = set(places), BUCKET_BITS - bits
        return self._where(lambda row: bucket(self._states[row], 0) >> shift in wanted)

    @override
    def spoilt(self) -> list[RecordState]:
        rows = frozenset(self._of_kind("spoilt"))
        return [self._state(i, row) for i, row in self._rows.items() if row in rows] if rows else []

    @override
    def keys(self, lows: Window = NO_LOWS) -> SortedKeys:
        deleted = _KINDS.index("deleted")
        rows = ((i, row) for i, row in self._rows.items() if self._kinds[row] != deleted)
        held = ((i, row) for i, row in rows if self._held(row))
        return ListedKeys(sorted(i for i, row in held if self._from(row, lows)))

    def _where(self, wanted: Callable[[int], bool]) -> list[RecordState]:
        found = ((i, row) for i, row in self._rows.items() if not self._kinds[row] and wanted(row))
        return [self._state(i, row) for i, row in found if self._held(row)]

    def _of_kind(self, kind: ExpectedKind) -> Iterator[int]:
        """Rows of a kind that the log still holds, of the part that is looked at."""
        wanted = _KINDS.index(kind)
        return (n for n, each in enumerate(self._kinds) if each == wanted and self._held(n))

    def _held(self, row: int) -> bool:
        part = self._bounds.part
        return self._from(row, self._bounds.starts) and (part is None or part.has(self._partitions[row]))

    def _from(self, row: int, lows: Window) -> bool:
        return not lows or self._offsets[row] >= lows.get(self._partitions[row], 0)

    def _state(self, doc_id: str, row: int) -> RecordState:
        kind = _KINDS[self._kinds[row]]
        return RecordState(
            doc_id, self._versions[row], self._partitions[row], self._offsets[row], kind, self._states[row]
        )


def reading_of(states: States) -> Reading:
    """The reading of one feed."""

    def read(record: Record) -> RecordState | None:
        if not states.makes_document(record.value):
            return None
        doc_id, version = states.identity(record.partition, record.offset, record.key, record.headers)
        known = doc_id, version, record.partition, record.offset
        if version < states.feed.floor:
            return RecordState(*known, "deleted")
        try:
            body = states.body(record.value)
        except InvalidRecord:
            return RecordState(*known, "spoilt")
        return (
            RecordState(*known, "deleted")
            if body is None
            else RecordState(*known, "living", state_hash(doc_id, version, body))
        )

    return read


def fold(records: Iterable[Record], reading: Reading, into: FoldedExpected | None = None) -> FoldedExpected:
    """The expected side of `records`, which may come in any order of partitions; `into` holds earlier ones."""
    out = FoldedExpected() if into is None else into
    for record in records:
        try:
            state = reading(record)
        except InvalidRecord:
            out.unreadable += 1
            continue
        if state is not None:
            out.add(state)
    return out


class ExpectedDocuments:
    """The expected side of one topic, each time read on from where it was last asked for."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._feed: Feed | None = None
        self._read: dict[int, int] = {}
        self._held = FoldedExpected()

    def upto(self, window: Window, states: States) -> FoldedExpected:
        """The expected side below the cut, valid until the next call; raises what reading raises."""
        behind = any(window.get(p, 0) < offset for p, offset in self._read.items())
        if behind or states.feed != self._feed:
            # Another floor or number of partitions judges earlier records anew.
            self._feed, self._read, self._held = states.feed, {}, FoldedExpected()
        records = records_below(self._reader, states.feed.name, window, self._read)
        fold(records, reading_of(states), self._held)
        self._read = dict(window)
        return self._held


def records_below(reader: LogReader, topic: str, window: Window, start: Window = NO_LOWS) -> Iterator[Record]:
    """All records of `topic` below the cut, from `start` on where it names a partition.

    What retention removes meanwhile is passed over.
    """
    for partition, begin in reader.begin_offsets(topic).items():
        offset = max(begin, start.get(partition, 0))
        while offset < window.get(partition, 0):
            try:
                for record in reader.read(topic, partition, offset, window[partition]):
                    offset = record.next_offset
                    yield record
                break
            except Terminal:
                begin = reader.begin_offsets(topic).get(partition, 0)
                if begin <= offset:
                    raise
                offset = begin
