"""The database's side: ranges of a table, each in a snapshot of its own, over several connections, at a bounded rate.

It leads: a server shows what is now. A connection that is lost is made anew, and its range read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

from include.audit.merkle.key_parts import sorts_alike
from include.audit.merkle.sides import FoundRows
from include.clock import Clock
from include.errors import LyrebirdError, Terminal, Transient
from include.pace import TokenBucket
from include.record.position import SourcePosition
from include.source.catalog.description import TableDescriber
from include.source.definition import SourceDefinition
from include.source.hashes.columns import ComparedRows, Incomparable
from include.source.hashes.scan import ScannedRange, TableScan
from include.source.snapshot.reader import SnapshotReader
from include.source.state.key_range import WHOLE, KeyRange

__all__ = ["AuditLoad", "DatabaseSide"]

T = TypeVar("T")

_TRIES: Final = 5
_AGAIN_S: Final = 2.0
_BUSY_S: Final = 0.5
_MOST_PARTS: Final = 200
"""More would make the other side's search for a row's range longer than its hash."""


class AuditLoad:
    """How much an audit asks of a server: connections, rows a second, and none while others are many."""

    def __init__(self, clock: Clock, *, connections: int, rows_per_s: int, busy_threads: int) -> None:
        """`rows_per_s`, `busy_threads` (of the server, at work): 0 for no limit."""
        self.connections, self._busy_threads, self._clock = connections, busy_threads, clock
        self._rate = TokenBucket(rows_per_s, clock)
        self._lock = threading.Lock()
        self.paused_s = 0.0
        """So long the server was left alone, as others kept it busy."""

    def wait(self, reader: SnapshotReader) -> None:
        """Until the server has fewer threads at work."""
        if not self._busy_threads:
            return
        while int(reader.ask("SHOW GLOBAL STATUS LIKE 'Threads_running'")[0][1]) > self._busy_threads:
            self._clock.sleep(_BUSY_S)
            with self._lock:
                self.paused_s += _BUSY_S

    def took(self, rows: int) -> None:
        """So many rows were read."""
        self._rate.pay(rows)


class DatabaseSide:
    """One table at its server. `rows` says what is compared, `parts` are its ranges, of about `part_rows` each."""

    def __init__(
        self,
        source: SourceDefinition,
        database: str,
        table: str,
        load: AuditLoad,
        clock: Clock,
        *,
        beyond: SourcePosition | None = None,
        where: str = "",
        range_rows: int = 50_000,
        whole_rows: int = 0,
        reader: Callable[[SourceDefinition, Clock], SnapshotReader] = SnapshotReader,
    ) -> None:
        """Learn the table, and where its ranges end.

        Args:
            source: server and policy.
            database: its own name.
            table: its own name.
            load: that may be asked of the server.
            clock: waits before a connection is made again.
            beyond: what a snapshot has at least, as the copy is no older.
            where: a condition on its rows (`snapshot.condition`); "": all.
            range_rows: of a range, where they are not too many for that.
            whole_rows: a table without ranges may have so many rows by the server's estimate; 0: any.
            reader: makes a connection.

        Raises:
            Terminal: as `TableScan`.
            Incomparable: as that, or a table without ranges is too large.
        """
        self._source, self._name, self._load, self._clock = source, (database, table), load, clock
        self._beyond, self._where, self._reader = beyond, where, reader
        self._idle: list[tuple[SnapshotReader, TableScan]] = []
        self._lock = threading.Lock()
        opened, scan = self._connected()
        self._idle.append((opened, scan))
        self.rows: ComparedRows = scan.rows
        self.flavour = opened.server.flavour
        estimate = opened.measure(database, table).rows
        divided = scan.divides and sorts_alike(scan.rows)
        if not divided and whole_rows and estimate > whole_rows:
            raise Incomparable(
                "a table whose key bounds no ranges is too large for one snapshot, which holds back purge meanwhile",
                table=".".join(self._name),
                rows=estimate,
                allowed=whole_rows,
                fix="Raise `whole_rows` of the audit.",
            )
        self.parts: Sequence[KeyRange] = (WHOLE,)
        self.part_rows = estimate
        if divided:
            self.part_rows = max(range_rows, -(-estimate // _MOST_PARTS))
            self.parts = self._divided(scan, self.part_rows)

    def leaves(self, parts: Sequence[KeyRange], bits: int) -> list[ScannedRange]:
        """As `sides.LeadingSide`."""
        return self._each(parts, lambda scan, part: scan.leaves(part, bits, self._beyond), lambda found: found.rows)

    def rows_of(self, parts: Mapping[KeyRange, Collection[int]], bits: int) -> dict[KeyRange, FoundRows]:
        """As `sides.LeadingSide`."""
        scans = self._each(
            list(parts),
            lambda scan, part: scan.rows_of(part, bits, parts[part], self._beyond),
            lambda found: len(found[1]),
        )
        return {part: FoundRows(span, texts) for part, (span, texts) in zip(parts, scans, strict=True)}

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            idle, self._idle = self._idle, []
        for reader, _ in idle:
            reader.close()

    def _each(
        self, parts: Sequence[KeyRange], work: Callable[[TableScan, KeyRange], T], size: Callable[[T], int]
    ) -> list[T]:
        def one(part: KeyRange) -> T:
            found = self._tried(lambda scan: work(scan, part))
            self._load.took(size(found))
            return found

        with ThreadPoolExecutor(self._load.connections, thread_name_prefix="audit") as pool:
            futures = [pool.submit(one, part) for part in parts]
            try:
                return [each.result() for each in futures]
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _tried(self, work: Callable[[TableScan], T]) -> T:
        for left in reversed(range(_TRIES)):
            reader: SnapshotReader | None = None
            try:
                reader, scan = self._taken()
                self._load.wait(reader)
                result = work(scan)
            except Transient:
                if reader is not None:
                    reader.close()
                if not left:
                    raise
                self._clock.sleep(_AGAIN_S)
            except LyrebirdError:
                if reader is not None:
                    reader.close()
                raise
            else:
                with self._lock:
                    self._idle.append((reader, scan))
                return result
        raise AssertionError("the last try returns or raises")

    def _taken(self) -> tuple[SnapshotReader, TableScan]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        reader, scan = self._connected()
        if scan.rows != self.rows:
            reader.close()
            raise Terminal(
                "the table was altered while it was compared", table=".".join(self._name), fix="Compare it again."
            )
        return reader, scan

    def _connected(self) -> tuple[SnapshotReader, TableScan]:
        reader = self._reader(self._source, self._clock)
        try:
            policy = self._source.policy
            shape = TableDescriber(reader.server, policy).shape
            return reader, TableScan(reader, *self._name, policy.of(*self._name), shape, self._where)
        except BaseException:
            with suppress(LyrebirdError):
                reader.close()
            raise

    def _divided(self, scan: TableScan, rows: int) -> list[KeyRange]:
        found, after = list[KeyRange](), None
        while (bound := scan.boundary(KeyRange(after, None), rows)) is not None:
            found.append(KeyRange(after, bound))
            after = bound
        return [*found, KeyRange(after, None)]
