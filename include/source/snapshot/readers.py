"""Threads that read a job's tables, chunk after chunk, each on a connection of its own.

A chunk is read to its end, and its snapshot ended, before its pieces are handed over through a queue of bounded length:
when the stream's thread has no time for them, the workers wait, and keep no lock meanwhile. A chunk that is not
finished, whatever happens to its thread, is read again.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Final

from include.clock import Clock
from include.errors import LyrebirdError, Transient
from include.pace import TokenBucket, doubled_s
from include.source.database.table_info import TableInfo
from include.source.definition import SourceDefinition
from include.source.rows.shape import TableShape
from include.source.snapshot.chunk import Chunk, ChunkFailed, ChunkPiece, RemainingRanges
from include.source.snapshot.held import SpooledRows
from include.source.snapshot.reader import SnapshotReader
from include.source.snapshot.table_reading import TableReading
from include.source.snapshot.watermark_window import StreamPlace

__all__ = ["ChunkReaders", "OpenReader"]

log = logging.getLogger(__name__)

OpenReader = Callable[[SourceDefinition, Clock], SnapshotReader]

_HANDED_OVER: Final = 4
# The server only estimates its rows' size.
_HELD_CHUNKS: Final = 4
_WAIT_S: Final = 0.1
_PAUSE_S: Final = 0.5
_MOST_FAILURES: Final = 6


class _Unwanted(Transient):
    """What is being read was given up meanwhile."""


class ChunkReaders:
    """`now` is the stream's place, kept up by the stream's thread.

    `expected`: about how many rows the tables have, None until the server was asked.
    """

    def __init__(
        self,
        source: SourceDefinition,
        clock: Clock,
        tables: Iterable[TableReading],
        rows_per_s: int,
        shape: Callable[[TableInfo], TableShape],
        now: StreamPlace,
        reader: OpenReader = SnapshotReader,
    ) -> None:
        """Begin to read.

        Args:
            source: the server, and how many threads read it.
            clock: for pauses.
            tables: what is left of each; read in this order.
            rows_per_s: most rows a second, of all threads together; 0: no limit.
            shape: tells what leaves of a table.
            now: the stream's place.
            reader: opens a connection that reads tables.
        """
        self.now = now
        self.expected: int | None = None
        self._source, self._clock, self._shape, self._open = source, clock, shape, reader
        # Held for a moment only, as the stream's thread wants it: never while the server is asked.
        self._lock = threading.Lock()
        self._tables = {reading.table: reading for reading in tables}
        self._chunks: set[Chunk] = set()
        self._stopped = threading.Event()
        self._rate = TokenBucket(rows_per_s, clock)
        self._pieces: queue.Queue[ChunkPiece | ChunkFailed] = queue.Queue(_HANDED_OVER * source.snapshot_workers)
        self._readers: set[SnapshotReader] = set()
        self._threads = [
            threading.Thread(target=self._work, args=(number == 0,), name=f"snapshot-{number}", daemon=True)
            for number in range(source.snapshot_workers)
        ]
        for thread in self._threads:
            thread.start()

    def take(self) -> ChunkPiece | ChunkFailed | None:
        """What a worker has handed over, None when there is nothing."""
        try:
            return self._pieces.get_nowait()
        except queue.Empty:
            return None

    def finish(self, chunk: Chunk) -> RemainingRanges | None:
        """The chunk is in the log: what is left of its table. None where the chunk is not wanted any more."""
        with self._lock:
            reading = self._tables.get(chunk.table)
            if reading is None or chunk not in reading.under_way:
                return None
            reading.finish(chunk)
            self._chunks.discard(chunk)
            if not reading.left:
                del self._tables[chunk.table]
            return RemainingRanges(reading.left, reading.sorted_by)

    def again(self, chunk: Chunk) -> None:
        """The chunk has to be read again."""
        with self._lock:
            if chunk.table in self._tables:
                self._tables[chunk.table].again(chunk)

    def leave_out(self, table: str) -> None:
        """Nothing more of that table is wanted."""
        with self._lock:
            reading = self._tables.pop(table, None)
            if reading is not None:
                reading.give_up()

    def oldest(self) -> int:
        """The number of the stream's transaction before the oldest chunk that is under way."""
        with self._lock:
            self._chunks = {chunk for chunk in self._chunks if not chunk.given_up}
            return min((chunk.since.number for chunk in self._chunks), default=self.now.number)

    def stop(self) -> None:
        """End all threads; what they were reading is dropped. May be called twice."""
        self._stopped.set()
        for reader in list(self._readers):
            reader.interrupt()
        for thread in self._threads:
            thread.join(timeout=10)

    def _work(self, measures: bool) -> None:
        failures = 0
        while not self._stopped.is_set():
            reader: SnapshotReader | None = None
            try:
                reader = self._opened()
                if measures and self.expected is None:
                    self.expected = sum(reader.measure(*table.split(".", 1)).rows for table in list(self._tables))
                while not self._stopped.is_set():
                    if self._read_one(reader):
                        failures = 0
                    else:
                        self._stopped.wait(_WAIT_S)
            except _Unwanted:
                # The connection is amid a result that nobody reads: another one is made at once.
                continue
            except Transient as error:
                failures += 1
                if failures >= _MOST_FAILURES:
                    self._hand_over(ChunkFailed(error))
                    return
                pause_s = doubled_s(failures, _PAUSE_S)
                if not self._stopped.is_set():
                    log.warning("a reader of the snapshot pauses for %.1f s: %s", pause_s, error)
                self._stopped.wait(pause_s)
            except LyrebirdError as error:
                self._hand_over(ChunkFailed(error))
                return
            finally:
                if reader is not None:
                    self._readers.discard(reader)
                    reader.close()

    def _opened(self) -> SnapshotReader:
        reader = self._open(self._source, self._clock)
        self._readers.add(reader)
        return reader

    def _read_one(self, reader: SnapshotReader) -> bool:
        """Read one chunk and hand it over; False when there is none to take."""
        found = self._next(reader)
        if found is None:
            return False
        reading, chunk = found
        held = SpooledRows(_HELD_CHUNKS * self._source.snapshot_chunk_bytes, self._source.spill_folder)
        try:
            whole = self._hold(reading, chunk, reader, held)
            # The snapshot has ended: whoever waits from here on keeps no lock.
            for piece in held:
                if not self._hand_over(piece):
                    return True
                self._rate.pay(len(piece.images), lambda: self._unwanted(chunk))
        except Transient:
            self.again(chunk)
            raise
        except LyrebirdError as error:
            raise self._failed(error, chunk.table) from error
        finally:
            held.close()
        if not whole:
            with reading.cutting:
                with self._lock:
                    # Whoever was here before has begun the table anew already.
                    mine = not chunk.given_up
                    if mine:
                        reading.give_up()
                if mine:
                    reading.recut(reader)
        return True

    def _hold(self, reading: TableReading, chunk: Chunk, reader: SnapshotReader, held: SpooledRows) -> bool:
        """Read a chunk to its end; whether the table's key is what it was cut by."""
        whole = False
        for piece in reading.pieces(reader, chunk, self._shape, lambda: self._open(self._source, self._clock)):
            if self._unwanted(chunk):
                raise _Unwanted("a chunk is not wanted any more", system="mysql", table=chunk.table)
            held.append(piece)
            whole = piece.last
        return whole

    def _unwanted(self, chunk: Chunk) -> bool:
        return self._stopped.is_set() or chunk.given_up

    def _next(self, reader: SnapshotReader) -> tuple[TableReading, Chunk] | None:
        """A chunk of the first table that has one; a table that keeps another worker waiting comes last."""
        with self._lock:
            readings = list(self._tables.values())
        for wait_s in (0.0, _WAIT_S):
            busy = []
            for reading in readings:
                if reading.free is None:
                    continue
                if not reading.cutting.acquire(timeout=wait_s):
                    busy.append(reading)
                    continue
                try:
                    chunk = self._cut(reading, reader)
                except Transient:
                    raise
                except LyrebirdError as error:
                    raise self._failed(error, reading.table) from error
                finally:
                    reading.cutting.release()
                if chunk is not None:
                    return reading, chunk
            readings = busy
        return None

    def _cut(self, reading: TableReading, reader: SnapshotReader) -> Chunk | None:
        reading.prepare(reader)
        with self._lock:
            free = reading.free
        if free is None:
            return None
        at = reading.boundary(reader, free)
        with self._lock:
            if self._tables.get(reading.table) is not reading:
                return None
            chunk = reading.take(free, at, self.now)
            if chunk is not None:
                self._chunks.add(chunk)
            return chunk

    def _failed(self, error: LyrebirdError, table: str) -> Transient:
        """Tell of it; the connection may be amid a result, so another is made for what is left."""
        self._hand_over(ChunkFailed(error, table))
        return Transient("a table could not be read", system="mysql", table=table)

    def _hand_over(self, item: ChunkPiece | ChunkFailed) -> bool:
        """Wait until there is room for it; False when nobody wants it any more."""
        while not (self._unwanted(item.chunk) if isinstance(item, ChunkPiece) else self._stopped.is_set()):
            try:
                self._pieces.put(item, timeout=_WAIT_S)
            except queue.Full:
                continue
            return True
        return False
