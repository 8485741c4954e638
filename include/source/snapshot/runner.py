"""A job at work: what its readers read goes into the stream's groups, as the watermark window allows.

Steps of a chunk, each in the Kafka transaction of the rows that it speaks of:
 1. its pieces, once the stream has passed the chunk's place; less the rows that the stream has changed since
 2. with the last piece: what is left of the table's keys
 3. with a table's last chunk: its floor, where rows were missed before; the table is owed no more
 4. with the last table: the job is owed no more, and answered
After a crash a chunk of which not all is in the log is read again, from a newer snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from include.clock import Clock
from include.errors import LyrebirdError, SettingsError, Terminal, Transient
from include.log.control import ControlKind
from include.log.requests.records import Answer
from include.record.position import SourcePosition
from include.record.schema import TableSchema
from include.source.database.table_info import TableInfo
from include.source.definition import SourceDefinition
from include.source.ports import SessionWatcher
from include.source.rows.shape import EncodedImage, TableShape
from include.source.snapshot.chunk import Chunk, ChunkFailed, ChunkPiece
from include.source.snapshot.reader import SnapshotReader
from include.source.snapshot.readers import ChunkReaders, OpenReader
from include.source.snapshot.table_reading import TableReading
from include.source.snapshot.watermark_window import SnapshotSpan, StreamPlace, WatermarkWindow, WindowVerdict
from include.source.state.capture_state import CaptureState
from include.source.state.job import FIRST, Job

__all__ = ["SnapshotJob", "StreamGroup"]

_BUSY_S: Final = 0.0
_IDLE_S: Final = 0.005
_MOST_HELD: Final = 8
_ANSWER_EVERY_S: Final = 1.0
_MOST_AGAIN: Final = 20


class StreamGroup(Protocol):
    """The group that the stream gathers, as far as a snapshot puts rows into it; see `Replicator`."""

    state: CaptureState
    window: WatermarkWindow | None

    @property
    def position(self) -> SourcePosition:
        """Of everything taken in."""

    @property
    def floor(self) -> int:
        """The next version."""

    def on_snapshot_rows(self, schema: TableSchema, images: list[EncodedImage]) -> None:
        """Rows as they are at `position`."""

    def on_absent_rows(self, schema: TableSchema, images: list[EncodedImage]) -> None:
        """Keys that have no row at `position`."""

    def on_answer(self, answer: Answer) -> None:
        """The answer that tells how far a request is."""

    def on_control(self, kind: ControlKind, table: str, *, floor: int) -> None:
        """A control record."""

    def set_aside(self, table: str, error: Terminal) -> None:
        """The table cannot be read."""


class SnapshotJob:
    """Carries one job of `core.state` out; `close` it in every case.

    Args:
        job: the one that is carried out.
        core: the group that the stream gathers, which rows go into.
        source: the server, and how fast tables are read.
        shape: tells what leaves of a table.
        clock: for times and pauses.
        watcher: hears how far the job is.
        reader: opens a connection that reads tables.
    """

    def __init__(
        self,
        job: Job,
        core: StreamGroup,
        source: SourceDefinition,
        shape: Callable[[TableInfo], TableShape],
        clock: Clock,
        watcher: SessionWatcher,
        reader: OpenReader = SnapshotReader,
    ) -> None:
        self.id = job.id
        self._core, self._clock, self._watcher = core, clock, watcher
        self._held: list[ChunkPiece] = []
        self._moved = False
        # Table → how often, and the number of the stream's transaction at which that was counted last.
        self._again: dict[str, tuple[int, int]] = {}
        self._rows: dict[str, int] = {}
        self._answered_s = clock.monotonic_s()
        self._window = core.window = WatermarkWindow(job.tables)
        job = job.begun(core.floor)
        core.state = core.state.with_job(job)
        self._tables = frozenset(job.tables)
        self._looked_at: tuple[object, object] = (None, None)
        if job.asked:
            core.on_answer(Answer(job.id, "running", clock.now_us(), done=job.done, total=job.total))
        self._readers = ChunkReaders(
            source,
            clock,
            [
                TableReading(
                    table,
                    job.ranges(table),
                    job.sorted_by.get(table, ""),
                    job.where,
                    source.snapshot_chunk_rows,
                    source.snapshot_chunk_bytes,
                    job.keys,
                )
                for table in job.tables
            ],
            source.snapshot_rows_per_s if job.rows_per_s is None else job.rows_per_s,
            shape,
            StreamPlace(0, core.position),
            reader,
        )

    @property
    def busy(self) -> bool:
        """Whether rows lie ready."""
        return self._moved

    @property
    def patience_s(self) -> float:
        """Seconds that the stream may wait for its next event: not at all while rows lie ready."""
        return _BUSY_S if self._moved else _IDLE_S

    @property
    def done(self) -> bool:
        """Whether the job is owed no more."""
        return self._core.state.job(self.id) is None

    def close(self) -> None:
        """End the readers; what is not in the log is dropped. May be called twice."""
        self._core.window = None
        self._readers.stop()

    def step(self) -> None:
        """Take in what the readers have, one piece at most. Call it between transactions."""
        core, job = self._core, self._core.state.job(self.id)
        self._readers.now = StreamPlace(self._window.number, core.position)
        self._window.prune(self._readers.oldest(), core.position)
        if job is None:
            return
        self._leave_out_gone(job)
        job = core.state.job(self.id) or job
        if job.total is None and not (job.where or job.keys) and self._readers.expected is not None:
            core.state = core.state.with_job(replace(job, total=job.done + self._readers.expected))
        self._receive()
        self._moved = self._emit()
        job = core.state.job(self.id)
        if job is not None and not job.tables:
            self._end(job)
        elif job is not None and job.asked and self._clock.monotonic_s() - self._answered_s >= _ANSWER_EVERY_S:
            self._answered_s = self._clock.monotonic_s()
            core.on_answer(Answer(job.id, "running", self._clock.now_us(), done=job.done, total=job.total))

    def _leave_out_gone(self, job: Job) -> None:
        """Tables that were dropped or set aside meanwhile; looked for only where something changed."""
        looked_at = job.tables, self._core.state.aside
        if looked_at[0] is self._looked_at[0] and looked_at[1] is self._looked_at[1]:
            return
        self._looked_at = looked_at
        tables = frozenset(job.tables)
        for table in self._tables - tables:
            self._readers.leave_out(table)
        self._tables = tables
        for table in tables.intersection(self._core.state.aside):
            self._leave(table)

    def _receive(self) -> None:
        while len(self._held) < _MOST_HELD:
            item = self._readers.take()
            if item is None:
                return
            if isinstance(item, ChunkFailed):
                self._on_failure(item.error, item.table)
            else:
                self._held.append(item)

    def _on_failure(self, error: LyrebirdError, table: str) -> None:
        if not table or isinstance(error, (SettingsError, Transient)) or not isinstance(error, Terminal):
            raise error
        job = self._core.state.job(self.id)
        if job is None or table not in job.tables:
            return
        if job.where or job.keys:
            # Whoever asks for some rows of a table leaves the table as it is.
            self._refuse(job, str(error))
            return
        self._core.set_aside(table, error)
        self._leave(table)

    def _emit(self) -> bool:
        """Put the first piece that may go out into the group; pieces of one chunk keep their order."""
        waiting: set[Chunk] = set()
        for index, piece in enumerate(self._held):
            chunk = piece.chunk
            if chunk.given_up or chunk in waiting:
                continue
            verdict = self._verdict(piece)
            if verdict == "go":
                del self._held[index]
                self._put(piece)
                return True
            if verdict == "wait":
                waiting.add(chunk)
            else:
                self._read_again(chunk)
        self._held = [piece for piece in self._held if not piece.chunk.given_up]
        return False

    def _verdict(self, piece: ChunkPiece) -> WindowVerdict:
        chunk = piece.chunk
        assert chunk.span is not None  # noqa: S101 - set before its first piece
        span = SnapshotSpan(chunk.span.low, piece.high)
        return self._window.verdict(chunk.table, chunk.since, span, self._core.position)

    def _read_again(self, chunk: Chunk) -> None:
        self._readers.again(chunk)
        times, counted = self._again.get(chunk.table, (0, 0))
        if chunk.since.number < counted:
            # What made others of that time of no use makes this one so: that counts once.
            return
        self._again[chunk.table] = times + 1, self._window.number
        if times >= _MOST_AGAIN:
            self._on_failure(
                Terminal(
                    "a table changes faster than a chunk of it can be read",
                    table=chunk.table,
                    tries=_MOST_AGAIN,
                    fix="Give it a primary key, lower `snapshot_chunk_rows`, or read it at a quiet hour: "
                    "`lyrebird capture resume-table`.",
                ),
                chunk.table,
            )

    def _put(self, piece: ChunkPiece) -> None:
        """Steps 1 to 3."""
        core, chunk = self._core, piece.chunk
        if piece.gone:
            # Its drop went by, or will: that takes its rows away.
            self._leave(chunk.table)
            return
        if piece.images:
            assert chunk.shape is not None and chunk.span is not None  # noqa: S101, PT018 - set before its first piece
            fresh = self._window.fresh(chunk.table, chunk.since, chunk.span.low, piece.images)
            try:
                if piece.absent:
                    core.on_absent_rows(chunk.shape.schema, fresh)
                else:
                    core.on_snapshot_rows(chunk.shape.schema, fresh)
            except Terminal as error:
                # Its key changed, and nobody asked for its topic anew.
                self._on_failure(error, chunk.table)
                return
            chunk.read += len(piece.images)
        if piece.last:
            left = self._readers.finish(chunk)
            job = core.state.job(self.id)
            if left is not None and job is not None:
                self._again.pop(chunk.table, None)
                self._finished(job.read(chunk.table, left.ranges, left.sorted_by, chunk.read), chunk)

    def _finished(self, job: Job, chunk: Chunk) -> None:
        core, table = self._core, chunk.table
        self._rows[table] = self._rows.get(table, 0) + chunk.read
        self._watcher.on_snapshot(table, self._rows[table], job.done, job.total)
        if not job.left[table]:
            if job.gap:
                core.on_control("gap", table, floor=job.floors[table])
            job = job.without(table)
        core.state = core.state.with_job(job)

    def _leave(self, table: str) -> None:
        self._readers.leave_out(table)
        job = self._core.state.job(self.id)
        if job is not None:
            self._core.state = self._core.state.with_job(job.without(table))

    def _refuse(self, job: Job, note: str) -> None:
        for table in job.tables:
            self._readers.leave_out(table)
        self._core.state = self._core.state.without_job(job.id)
        self._core.on_answer(Answer(job.id, "refused", self._clock.now_us(), done=job.done, note=note))
        self._watcher.on_snapshot_end()

    def _end(self, job: Job) -> None:
        """Step 4."""
        core = self._core
        core.state = core.state.without_job(job.id)
        if job.id == FIRST:
            core.state = replace(core.state, snapshot="done")
        if job.asked:
            core.on_answer(Answer(job.id, "done", self._clock.now_us(), done=job.done, total=job.done))
        self._watcher.on_snapshot_end()
