"""One fenced session of capture: from opening the writer to its loss or the end.

The order of durable steps:
 1. open the writer: fences the last one of this source and ends its open transaction
 2. read the last resolved record, up to the topic's end after the fence
 3. ask for the binlog after its GTID position
 4. gather whole transactions, for at most `group_ms` or `group_bytes`
 5. commit them in one Kafka transaction, the resolved record last (`commit.Committer`)
An error in 3–5 ends the session; the next one begins at 1 and re-reads what was not committed, under the same versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, Final

from include.clock import Clock
from include.errors import SettingsError, Terminal
from include.log.requests import Answer
from include.log.topics import source_resolved
from include.source.cascades import cascades_into
from include.source.checkpoint import read_checkpoint
from include.source.commit import Committer
from include.source.connection import asked, server_of
from include.source.definition import SourceDefinition
from include.source.desk import Desk, full_names
from include.source.encode import Encoders
from include.source.failover import there
from include.source.group import Output
from include.source.inflow import Idle, Inflow
from include.source.ports import LogPorts, Watcher, ensure_topics
from include.source.replicator import Replicator
from include.source.snapshot import Snapshot, snapshot_beyond, snapshot_of_all
from include.source.state import CaptureState, Job
from include.source.tables import Catalog, TableInfo, load_tables
from include.source.transaction import SourceTransaction

__all__ = ["Session"]

_IDLE_COMMIT_S: Final = 0.8
_POLL_S: Final = 0.25
_REQUESTS_EVERY_S: Final = 1.0


class Session:
    """One writer's life. Any error makes it useless; `close` it in every case."""

    def __init__(self, name: str, source: SourceDefinition, ports: LogPorts, clock: Clock, watcher: Watcher) -> None:
        """Steps 1 and 2."""
        self._name, self._source, self._ports, self._clock, self._watcher = name, source, ports, clock, watcher
        self._server = server_of(source)
        ensure_topics(name, ports.admin)
        self._writer = ports.writer()
        self._inflow: Inflow | None = None
        try:
            self._checkpoint = read_checkpoint(ports.reader, source_resolved(name))
            self._desk = Desk(name, ports.reader, clock)
        except BaseException:
            self.close()
            raise
        self._committer = Committer(name, self._writer, self._checkpoint, clock)
        self._catalog = Catalog(self._load, self._server, source.policy, self._cascades_into)
        self._encoders = Encoders(name, source, ports.admin, ports.registry)
        self._replicator: Replicator | None = None
        self._group_since_s: float | None = None
        self._committed_s = self._asked_s = clock.monotonic_s()
        self._caught_up = False

    @property
    def snapshot_done(self) -> bool:
        """Whether replication may start."""
        return self._state().snapshot == "done"

    def close(self) -> None:
        """Give up writer and dump; what is not committed is dropped. May be called twice."""
        if self._inflow is not None:
            self._inflow.close()
        self._writer.close()

    def first_snapshot(self, tables: tuple[str, ...] = ()) -> bool:
        """Read the captured tables anew from now on; False when a stop request came before the end.

        With `tables` the others are owed: replication reads them first. After an earlier try every table gets a floor.
        """
        again = self._checkpoint.last is not None
        before = self._state()
        snapshot = snapshot_of_all(self._source, self._clock, self._watcher)
        if snapshot is None:
            return False
        try:
            found = {".".join(name): info for name, info in snapshot.tables().items()}
            chosen = _chosen(tables, found)
            state = CaptureState(version=before.version, requests_next=before.requests_next)
            core = self._begin(snapshot.position, state)
            floor = core.floor
            for info in found.values():
                core.take_up(self._catalog.shape(info).schema)
            for table in before.tables:
                if table not in found:
                    core.on_control("drop", table)
            owed = [table for table in found if table not in chosen]
            left = list(chosen)
            while left:
                if self._read_table(snapshot, found[left[0]], [*left, *owed]) is None:
                    return False
                if again:
                    core.on_control("gap", left[0], floor=floor)
                left.pop(0)
            core.state = replace(core.state, snapshot="done")
            if owed:
                core.state = core.state.with_gap("gap:first-snapshot", owed)
            for job in before.jobs:
                if job.asked:
                    core.on_answer(Answer(job.id, "done", self._clock.now_us(), note="all tables were read anew"))
            self._commit()
        finally:
            snapshot.close()
        return True

    def stream(self, extra: Job | None = None) -> None:
        """Steps 3–5 until a stop request; with `extra` until that snapshot is done."""
        last = self._checkpoint.last
        if last is None or not self.snapshot_done:
            raise Terminal(
                "the source has no finished snapshot to go on from",
                source=self._name,
                fix=f"Run `lyrebird capture run --source {self._name} --snapshot`, or start the DAG source_snapshot.",
            )
        position = asked(self._source, lambda ask: there(ask, self._server, last.position))
        core = self._begin(position, self._state())
        self._take_up_new_tables(core)
        if extra is not None:
            tables = tuple(_chosen(extra.tables, core.state.tables))
            core.state = replace(core.state, jobs=(*core.state.jobs, replace(extra, tables=tables)))
        self._inflow = Inflow(
            self._source,
            self._source.replica_id(self._name),
            position,
            core.state.waiting,
            self._survives_rollback,
            self._clock,
        )
        while not self._watcher.stop_requested():
            self._step(core, self._inflow)
            self._take_requests(core)
            if core.state.jobs and not core.pending and not self._carry_out(core, self._inflow, core.state.jobs[0]):
                break
            if extra is not None and all(job.id != extra.id for job in core.state.jobs):
                break
        if core.pending:
            self._commit()

    def _state(self) -> CaptureState:
        last = self._checkpoint.last
        return CaptureState() if last is None else CaptureState.from_json(last.state)

    def _begin(self, position: Any, state: CaptureState) -> Replicator:
        self._replicator = Replicator(
            self._name, self._source, self._catalog, self._encoders, self._clock, position, state, self._drain
        )
        return self._replicator

    def _drain(self, outputs: Iterable[Output]) -> None:
        self._committer.extend(outputs)
        self._watcher.on_part()

    def _survives_rollback(self, database: str, table: str) -> bool:
        info = self._catalog.tables().get((database, table))
        return info is not None and not info.transactional

    def _load(self) -> Any:
        source = self._source
        return asked(source, lambda ask: load_tables(ask, source.databases, source.captures))

    def _cascades_into(self, database: str, table: str) -> bool:
        return asked(self._source, lambda ask: cascades_into(ask, database, table))

    def _take_up_new_tables(self, core: Replicator) -> None:
        """Tables that the source names only since now are owed a snapshot; all get their topics at once."""
        new = []
        for name, info in self._catalog.tables().items():
            table = ".".join(name)
            if table not in core.state.tables:
                new.append(table)
                core.take_up(self._catalog.shape(info).schema)
        if new:
            core.state = core.state.with_gap(f"gap:new:{core.floor}", new)

    def _step(self, core: Replicator, inflow: Inflow) -> None:
        """Take at most one event, and commit when it is time."""
        now_s = self._clock.monotonic_s()
        wait_s = _POLL_S
        if self._group_since_s is not None:
            wait_s = max(0.0, self._group_since_s + self._source.group_ms / 1000 - now_s)
        item = inflow.next(wait_s)
        now_s = self._clock.monotonic_s()
        if isinstance(item, SourceTransaction):
            self._caught_up = False
            waiting = inflow.waiting(core.state.waiting, core.position)
            if waiting is not core.state.waiting:
                core.state = replace(core.state, waiting=waiting)
            core.on_transaction(item)
            if self._group_since_s is None:
                self._group_since_s = now_s
        elif isinstance(item, Idle):
            self._caught_up = True
            core.on_idle(item.at, item.until_us)
        if self._group_since_s is not None:
            age_ms = (now_s - self._group_since_s) * 1000
            if age_ms >= self._source.group_ms or core.size_bytes >= self._source.group_bytes:
                self._commit()
        elif isinstance(item, Idle) and now_s - self._committed_s >= _IDLE_COMMIT_S:
            self._commit()

    def _commit(self, uncovered: tuple[str, ...] = ()) -> None:
        core = self._core
        group = core.flush(uncovered)
        self._committer.commit(group)
        self._group_since_s = None
        self._committed_s = self._clock.monotonic_s()
        if self._inflow is not None:
            # While the log kept us waiting, nobody listened to the server.
            self._inflow.heard()
        self._watcher.on_commit(group, caught_up=self._caught_up)

    @property
    def _core(self) -> Replicator:
        assert self._replicator is not None  # noqa: S101 - every way here has passed _begin
        return self._replicator

    def _take_requests(self, core: Replicator) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._asked_s < _REQUESTS_EVERY_S:
            return
        self._asked_s = now_s
        taken = self._desk.take(core.state, core.state.tables)
        if taken is not None:
            core.state = taken.state
            for answer in taken.answers:
                core.on_answer(answer)
            self._commit()

    def _carry_out(self, core: Replicator, inflow: Inflow, job: Job) -> bool:
        """Read a job's tables at a coordinate that the stream is brought to exactly; False when asked to stop."""
        if job.asked:
            core.on_answer(Answer(job.id, "running", self._clock.now_us()))
            self._commit()
        snapshot = snapshot_beyond(self._source, self._clock, core.position)
        try:
            while not core.position.covers(snapshot.position):
                if self._watcher.stop_requested():
                    return False
                self._step(core, inflow)
            if core.pending:
                self._commit()
            # What went by meanwhile may have dropped tables of the job, or the job with them.
            now = next((each for each in core.state.jobs if each.id == job.id), None)
            found = {".".join(name): info for name, info in snapshot.tables().items()}
            floor, rows = core.floor, 0
            for table in now.tables if now else ():
                if table not in found:
                    continue
                rows_read = self._read_table(snapshot, found[table], [])
                if rows_read is None:
                    return False
                rows += rows_read
                if job.gap:
                    core.on_control("gap", table, floor=floor)
            core.state = core.state.without_job(job.id)
            if job.asked:
                core.on_answer(Answer(job.id, "done", self._clock.now_us(), done=rows, total=rows))
            self._commit()
            self._desk.close(job.id)
        finally:
            snapshot.close()
        return True

    def _read_table(self, snapshot: Snapshot, info: TableInfo, uncovered: list[str]) -> int | None:
        """Rows of one table into the log, committed by `group_bytes`; their number, None when asked to stop."""
        core, shape, rows = self._core, self._catalog.shape(info), 0
        for image in snapshot.rows(shape):
            core.on_snapshot_row(shape.schema, image)
            rows += 1
            if core.size_bytes >= self._source.group_bytes:
                self._commit(tuple(uncovered))
                self._watcher.on_snapshot(shape.table, rows)
                if self._watcher.stop_requested():
                    return None
        self._watcher.on_snapshot(shape.table, rows)
        self._watcher.on_snapshot_end()
        return rows


def _chosen(asked: tuple[str, ...], tables: Collection[str]) -> list[str]:
    """Full names of the tables asked for, all without any; raises `SettingsError` for one that is not captured."""
    found, unknown = full_names(asked, tables)
    if unknown:
        raise SettingsError(
            "no such table is captured", tables=unknown, allowed=sorted(tables), fix="Correct --tables or the source."
        )
    return list(found)
