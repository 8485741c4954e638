"""The two sides of a judgement: the database of a topic's documents, and the topic as its resolved records speak."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from include.audit.documents.judge import DocumentBody, NewestRecord
from include.audit.documents.made import DocumentMaker, shown
from include.clock import Clock
from include.document.behind import values_of, values_text
from include.document.reading.tables import SourceTables
from include.errors import InvalidRecord, Transient
from include.log import topics
from include.log.ports import LogReader, Record
from include.log.publishing.last_mark import newest_of
from include.log.resolved import ResolvedRecord
from include.record.codec import Decoder
from include.record.position import SourcePosition
from include.record.version import from_headers

__all__ = ["AssembledDocuments", "TopicDocuments", "complete", "key_text"]

_LOOK_S: Final = 0.2


def key_text(key: Mapping[str, Any]) -> str:
    """A key's values as a text that can be read back (`document.behind`)."""
    return values_text(tuple(key.values()))


def complete(
    reader: LogReader, topic: str, source: str, clock: Clock, patience_s: float, at: SourcePosition | None = None
) -> tuple[SourcePosition, dict[int, int]]:
    """Ends of the topic as they are now, and a position, no earlier than `at`, that has all that is below them.

    It is that of a resolved record which came after one looked at the ends: what its writer committed before belongs to
    this record or to earlier ones. Records that others wrote by hand are below the ends, too.

    Args:
        reader: of the log.
        topic: the documents'.
        source: name of the database in the deployment files.
        clock: for waiting.
        patience_s: seconds to wait at most.
        at: position that the found one has to cover; None: any will do.

    Returns:
        The position, and partition → end offset of the topic.

    Raises:
        Transient: no such record comes within `patience_s`, or those that come name tables of whose changes documents
            may lack some: a part of what was signalled still waits, or capture does not cover them.
    """
    name = topics.resolved(topic)
    ends = reader.end_offsets(topic)
    first = _newest(reader, name, source)
    until_s = clock.monotonic_s() + patience_s
    while True:
        last = _newest(reader, name, source)
        reached = last and (not first or last.sequence > first.sequence) and (at is None or last.position.covers(at))
        if last and reached and not last.uncovered:
            return last.position, ends
        if clock.monotonic_s() > until_s:
            said = "has not come to the database's position" if not reached else "does not cover all tables"
            raise Transient(
                f"the assembler {said} within {patience_s:g} s",
                system="assembler",
                topic=topic,
                uncovered=sorted(last.uncovered) if last else [],
                position="none" if last is None else str(last.position.gtids) or str(last.position.binlog),
                wanted="any" if at is None else str(at.gtids) or str(at.binlog),
                fix="Do capture and assembler run? `lyrebird status` tells.",
            )
        clock.sleep(_LOOK_S)


def _newest(reader: LogReader, name: str, source: str) -> ResolvedRecord | None:
    return newest_of(reader, name)[0].of(source)


class AssembledDocuments:
    """As `judge.DocumentDatabase`.

    `place` says where the source's binlog ends now; `spoken`, what the topic spoke for last.
    """

    def __init__(
        self,
        maker: DocumentMaker,
        tables: SourceTables,
        place: Callable[[], SourcePosition],
        spoken: Callable[[], SourcePosition],
    ) -> None:
        self._maker, self._tables, self._place, self._spoken = maker, tables, place, spoken

    def documents(self, keys: Collection[str]) -> tuple[SourcePosition, Mapping[str, DocumentBody | None]]:
        """As `judge.DocumentDatabase`."""
        with self._tables.snapshot(self._spoken()) as snapshot:
            found = {
                values_text(key): body for key, body in self._maker.of(snapshot, list(map(values_of, sorted(keys))))
            }
        return self._place(), found


class TopicDocuments:
    """As `judge.Topic`: begins with what was found below some ends, and reads on from there.

    It knows the keys of `stands`, and no others. `unreadable` counts records that nobody can read.

    Args:
        reader: of the log.
        topic: the documents'.
        source: name of the database in the deployment files.
        decode: decodes keys and values of records.
        stands: key → what was found of it below the ends; its version is -1 where there is no record.
        at: (what the topic speaks for at these ends, partition → end offset).
        clock: for waiting.
        patience_s: seconds for which the assembler is waited for.
    """

    def __init__(
        self,
        reader: LogReader,
        topic: str,
        source: str,
        decode: Decoder,
        stands: Mapping[str, NewestRecord],
        at: tuple[SourcePosition, Mapping[int, int]],
        clock: Clock,
        patience_s: float,
    ) -> None:
        self._reader, self._topic, self._source, self._decode = reader, topic, source, decode
        self._stands, self._clock, self._patience_s = dict(stands), clock, patience_s
        self.spoken, self._next = at[0], dict(at[1])
        self.unreadable = 0

    def newest(self, keys: Collection[str], at: SourcePosition) -> Mapping[str, NewestRecord]:
        """As `judge.Topic`. Raises `Transient` when the assembler does not come to `at` in time."""
        position, ends = complete(self._reader, self._topic, self._source, self._clock, self._patience_s, at)
        for partition, end in sorted(ends.items()):
            for record in self._reader.read(self._topic, partition, self._next.get(partition, 0), end):
                self._take(record)
            self._next[partition] = end
        self.spoken = position
        return {key: self._stands[key] for key in keys if key in self._stands}

    def _take(self, record: Record) -> None:
        try:
            key, version = key_text(self._decode(record.key or b"")), from_headers(record.headers)
        except InvalidRecord:
            # Of no key that could be asked about.
            self.unreadable += 1
            return
        if key not in self._stands or version < self._stands[key].version:
            return
        try:
            body = None if record.value is None else shown(self._decode(record.value))
        except InvalidRecord:
            # No document of anybody, so it is another than the database's.
            body, self.unreadable = {}, self.unreadable + 1
        self._stands[key] = NewestRecord(version, body)
