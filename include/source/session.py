"""One fenced session of capture: from opening the log to its loss or the end.

The order of durable steps:
 1. open the log: fences the last capture of this source and ends its open transaction
 2. learn from it where the last committed group ended
 3. ask for the binlog after its GTID position
 4. gather whole transactions, for at most `group_ms` or `group_bytes`
 5. commit them in one transaction of the log, the resolved record last
An error in 3–5 ends the session; the next one begins at 1 and re-reads what was not committed, under the same versions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Final

from include.clock import Clock
from include.errors import Restart, SettingsError, Terminal
from include.log.ports import TopicInfo
from include.log.topics import change
from include.record.position import SourcePosition
from include.source.beside import beside
from include.source.binlog.step import PlainRun
from include.source.binlog.transaction import SourceTransaction
from include.source.catalog.catalog import TableCatalog
from include.source.database.transaction_stream import BinlogIdle
from include.source.definition import SourceDefinition
from include.source.generation import outgrown, renew
from include.source.ports import CaptureLog, OutgoingRecord, SessionWatcher
from include.source.replicator import Replicator
from include.source.request_queue import RequestQueue
from include.source.rows.encode import TableEncoders
from include.source.snapshot.condition import leaving
from include.source.snapshot.plan import full_names
from include.source.snapshot.runner import SnapshotJob
from include.source.state.capture_state import CaptureState, TableSetAside
from include.source.state.job import FIRST, GAP_OF_TOPIC, Job
from include.source.upstream import Flow, Upstream

__all__ = ["CaptureSession"]

log = logging.getLogger(__name__)

_IDLE_COMMIT_S: Final = 0.8
_POLL_S: Final = 0.25
_LONGEST_GROUP_S: Final = 0.5
_GROUPS_TO_COMMITS: Final = 16
_REQUESTS_EVERY_S: Final = 1.0
_TOPICS_EVERY_S: Final = 60.0
_TOPICS_SETTLE_S: Final = 1.0


class CaptureSession:
    """One writer's life. Any error makes it useless; `close` it in every case."""

    def __init__(
        self,
        name: str,
        source: SourceDefinition,
        log: CaptureLog,
        upstream: Upstream,
        clock: Clock,
        watcher: SessionWatcher,
    ) -> None:
        """Steps 1 and 2.

        Args:
            name: the source's.
            source: as it is declared.
            log: the log of this source; closed when this is closed.
            upstream: the server.
            clock: for times and pauses.
            watcher: hears of commits, and may stop the session.

        Raises:
            Transient: log or server does not answer.
            Terminal: the log does not tell where the session before ended.
        """
        self._name, self._source, self._log, self._upstream = name, source, log, upstream
        self._clock, self._watcher = clock, watcher
        self._flow: Flow | None = None
        self._copying: SnapshotJob | None = None
        self._resume = log.open()
        self._tried = self._state().version
        try:
            self._desk = RequestQueue(log, clock)
        except BaseException:
            self.close()
            raise
        self._catalog = TableCatalog(
            upstream.tables,
            upstream.server,
            source.policy,
            upstream.cascades_into,
            upstream.table,
            upstream.changes_others,
            upstream.untraced_cascades,
        )
        self._encoders = TableEncoders(name, source, log)
        self._replicator: Replicator | None = None
        self._looking: Future[dict[str, TopicInfo]] | None = None
        self._group_since_s: float | None = None
        self._committed_s = self._asked_s = self._looked_s = clock.monotonic_s()
        self._commit_s = 0.0
        self._caught_up = False

    @property
    def begun(self) -> bool:
        """Whether there is something to go on from."""
        state = self._state()
        return state.snapshot == "done" or state.job(FIRST) is not None

    @property
    def version(self) -> int:
        """The highest number that this session has given to a committed group, or to one that may be committed."""
        return self._tried

    @property
    def snapshot_done(self) -> bool:
        """Whether the first snapshot is complete."""
        state = self._replicator.state if self._replicator else self._state()
        return state.snapshot == "done"

    def close(self) -> None:
        """Give up log, dump and what reads tables; what is not committed is dropped. May be called twice."""
        if self._copying is not None:
            self._copying.close()
        if self._flow is not None:
            self._flow.close()
        self._log.close()

    def begin(self, tables: tuple[str, ...] = ()) -> bool:
        """Owe a snapshot of all captured tables, from now on; False when a stop request came before.

        `tables` are read first, as job `FIRST`. After an earlier try every table gets a floor. `stream` reads them.
        """
        again = self._resume is not None
        before = self._state()
        position = self._upstream.first_position(self._clock, self._watcher)
        if position is None:
            return False
        names = {".".join(name): name for name in self._upstream.names()}
        chosen = dict.fromkeys(_chosen(tables, names))
        rest = tuple(table for table in names if table not in chosen)
        jobs = [Job(FIRST, tuple(chosen), gap=again, uncovered=True)]
        jobs += [Job(f"rest of {FIRST}", rest, gap=again, uncovered=True)] if rest else []
        jobs += [job for job in before.jobs if job.asked]
        state = CaptureState(
            version=before.version,
            tables=dict.fromkeys(names, 0),
            requests_next=before.requests_next,
            jobs=tuple(jobs),
            topics={table: id_ for table, id_ in before.topics.items() if table in names},
        )
        core = self._begin(position, state)
        self._encoders.prepare(names.values())
        for info in self._catalog.tables().values() if any(before.tables.values()) else ():
            schema = self._catalog.shape(info).schema
            if before.tables.get(schema.full_name, 0) not in (0, self._encoders.key_id(schema)):
                self._encoders.renew(schema)
        for table in before.tables:
            if table not in names:
                core.on_control("drop", table)
        self._commit()
        return True

    def stream(self, extra: Job | None = None, until: str = "") -> None:
        """Steps 3–5, and the snapshots that are owed, until a stop request; with `until` until that job is done.

        `extra` is one more job.
        """
        core = self._replicator or self._go_on()
        known = {*core.state.captured}
        looking = self._look_for_topics(known)
        self._keep_to_policy(core)
        self._keep_to_topics(core, looking.result() | self._encoders.topics(core.state.captured.keys() - known))
        self._renew(core)
        if extra is not None and core.state.job(extra.id) is None and not self._desk.closed(extra.id):
            tables = tuple(_chosen(extra.tables, core.state.captured))
            core.state = replace(core.state, jobs=(*core.state.jobs, replace(extra, tables=tables)))
        self._flow = self._upstream.flow(core.position, core.state.waiting, self._survives_rollback, self._clock)
        while not self._watcher.stop_requested():
            self._upstream.check()
            self._step(core, self._flow)
            self._require_topics(core)
            self._take_requests(core)
            self._copy(core)
            if until and core.state.job(until) is None and not core.pending:
                break
        if core.pending:
            self._commit()

    def _go_on(self) -> Replicator:
        """From where the last capture ended."""
        if self._resume is None or not self.begun:
            raise Terminal(
                "the source has no snapshot to go on from",
                source=self._name,
                fix=f"Run `lyrebird capture run --source {self._name} --snapshot`, or start the DAG source_snapshot.",
            )
        return self._begin(self._upstream.there(self._resume.position), self._state())

    def _state(self) -> CaptureState:
        return CaptureState() if self._resume is None else self._resume.state

    def _begin(self, position: SourcePosition, state: CaptureState) -> Replicator:
        self._replicator = Replicator(
            self._name,
            self._source,
            self._catalog,
            self._encoders,
            self._clock,
            position,
            state,
            self._drain,
            self._upstream.now_us,
        )
        return self._replicator

    def _drain(self, outputs: Sequence[OutgoingRecord]) -> None:
        self._log.write(outputs)
        self._watcher.on_part()

    def _survives_rollback(self, database: str, table: str) -> bool:
        info = self._catalog.table((database, table))
        return info is not None and not info.transactional

    def _keep_to_policy(self, core: Replicator) -> None:
        """What the policy drops since now is covered no more; what passes only since now, or again, is owed a snapshot.

        Committed before the first event is taken: no resolved record covers a table whose changes are passed over.
        """
        names = {".".join(name): name for name in self._upstream.names()}
        state = core.state
        passing = {table for table in state.tables if self._source.captures(*table.split(".", 1))}
        for table in sorted({*state.tables} - passing - {*state.left_out}):
            log.warning("table %s is left out by the policy from %s on: it is not covered", table, core.position.binlog)
            core.on_control("left_out", table, floor=0)
            since = TableSetAside("", str(core.position.binlog), "the source's policy drops it", self._clock.now_us())
            core.state = core.state.with_left_out(table, since)
        back = passing.intersection(state.left_out)
        for table in sorted(back - {*names}):
            # Its drop went by while nobody listened to it.
            core.on_control("drop", table)
            core.state = core.state.without_table(table)
        if back := back.intersection(names):
            core.state = core.state.with_back(f"gap:back:{core.floor}", sorted(back))
        new = {table: name for table, name in names.items() if table not in core.state.tables}
        if new:
            self._encoders.prepare(new.values())
            core.state = core.state.with_tables(new).with_gap(f"gap:new:{core.floor}", new)
        if core.state is not state:
            self._commit()

    def _look_for_topics(self, tables: Collection[str]) -> Future[dict[str, TopicInfo]]:
        """Beside all else: of ten thousand that takes a second."""
        return beside(lambda: self._encoders.topics(tables), "topics")

    def _keep_to_topics(self, core: Replicator, infos: Mapping[str, TopicInfo]) -> None:
        """A table whose topic was deleted, or made anew by somebody else, is owed all of its rows.

        1. that is committed, with an id that no topic has: no resolved record covers rows that went with the topic
        2. topics that are missing are made
        3. their ids are committed, with the ends that readers shall wait for
        A crash before 3 is followed by 1 to 3 again. Done before the first event is taken. `infos` are the topics that
        were found, of tables that are captured no more, too.
        """
        captured, known = core.state.captured, core.state.topics
        infos = {table: info for table, info in infos.items() if table in captured}
        # Of a version that kept no ids, the schema of a table's key tells that its topic was there.
        gone = {table for table, key_id in captured.items() if table not in infos and (key_id or table in known)}
        if gone:
            # One broker may answer before it has heard of a topic.
            self._clock.sleep(_TOPICS_SETTLE_S)
            infos |= self._encoders.topics(gone)
        ids = {table: info.topic_id for table, info in infos.items()}
        lost = sorted((gone - ids.keys()) | {table for table, id_ in ids.items() if known.get(table, id_) != id_})
        if lost:
            core.state = self._with_topics(core, ids | dict.fromkeys(lost, ""))
            core.state = core.state.with_gap(f"{GAP_OF_TOPIC}{core.floor}", lost)
            self._commit()
            self._encoders.prepare((database, name) for database, _, name in (table.partition(".") for table in lost))
            made = self._encoders.topics(lost)
            if len(made) < len(lost):
                raise Restart("a topic was made that not all brokers know yet", system="kafka", fix="Begin once more.")
            for table, info in made.items():
                log.warning("topic %s was deleted, or made anew: all rows of %s are read into it", info.name, table)
                self._log.begins_anew(info.name)
                ids[table] = info.topic_id
        core.state = self._with_topics(core, ids)
        self._looked_s = self._clock.monotonic_s()
        if lost:
            self._commit()

    @staticmethod
    def _with_topics(core: Replicator, ids: Mapping[str, str]) -> CaptureState:
        """With these ids of captured tables' topics; those of tables that are left out stay known."""
        out = {table: id_ for table, id_ in core.state.topics.items() if table in core.state.left_out}
        return replace(core.state, topics=out | dict(ids))

    def _require_topics(self, core: Replicator) -> None:
        """Now and then: the topics are those that the session began with, or made."""
        if self._looking is None:
            if self._clock.monotonic_s() - self._looked_s >= _TOPICS_EVERY_S:
                self._looking = self._look_for_topics({*core.state.captured})
            return
        if not self._looking.done():
            return
        infos, self._looking, self._looked_s = self._looking.result(), None, self._clock.monotonic_s()
        ids = {table: info.topic_id for table, info in infos.items() if table in core.state.captured}
        for table, id_ in core.state.topics.items():
            if table in core.state.captured and ids.get(table) != id_:
                raise Restart(
                    "a topic was deleted, or made anew, while capture wrote to it",
                    system="kafka",
                    topic=change(self._name, *table.split(".", 1)),
                    fix="The next session reads all rows of its table into it again.",
                )
        core.state = self._with_topics(core, ids)

    def _step(self, core: Replicator, flow: Flow) -> None:
        """Take at most one event, and commit when it is time."""
        now_s = self._clock.monotonic_s()
        wait_s = _POLL_S if self._copying is None else self._copying.patience_s
        if self._group_since_s is not None:
            wait_s = min(wait_s, max(0.0, self._group_since_s + self._group_s - now_s))
        item = flow.next(wait_s)
        now_s = self._clock.monotonic_s()
        if isinstance(item, SourceTransaction | PlainRun):
            self._caught_up = False
            waiting = flow.waiting(core.state.waiting, core.position)
            if waiting is not core.state.waiting:
                core.state = replace(core.state, waiting=waiting)
            if isinstance(item, PlainRun):
                core.on_run(item)
            else:
                core.on_transaction(item)
            if self._group_since_s is None:
                self._group_since_s = now_s
        elif isinstance(item, BinlogIdle):
            self._caught_up = True
            core.on_idle(item.at, item.until_us)
        if self._group_since_s is not None:
            if now_s - self._group_since_s >= self._group_s or core.size_bytes >= self._source.group_bytes:
                self._commit()
        elif isinstance(item, BinlogIdle) and now_s - self._committed_s >= _IDLE_COMMIT_S:
            self._commit()

    @property
    def _group_s(self) -> float:
        """How long a group is gathered; while a snapshot's rows lie ready, long enough that commits cost little."""
        declared_s = self._source.group_ms / 1000
        if self._copying is None or not self._copying.busy:
            return declared_s
        return max(declared_s, min(_LONGEST_GROUP_S, _GROUPS_TO_COMMITS * self._commit_s))

    def _commit(self) -> None:
        core = self._core
        group = core.flush()
        self._tried = group.state.version
        begun_s = self._clock.monotonic_s()
        self._log.commit(group)
        self._group_since_s = None
        self._committed_s = self._clock.monotonic_s()
        self._commit_s = self._committed_s - begun_s
        if self._flow is not None:
            # While the log kept us waiting, nobody listened to the server.
            self._flow.heard()
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
        taken = self._desk.take(core.state, core.state.captured, self._columns)
        if taken is not None:
            core.state = taken.state
            for answer in taken.answers:
                core.on_answer(answer)
            self._commit()
            self._renew(core)

    def _columns(self, table: str) -> Callable[[str], str]:
        """For the conditions of requests; a table that is gone has none."""
        database, _, name = table.partition(".")
        info = self._catalog.table((database, name))
        return (lambda name: name) if info is None else leaving(self._catalog.shape(info))

    def _renew(self, core: Replicator) -> None:
        """Topics anew, where a request asks for a table whose key changed; see `generation`."""
        schemas = outgrown(core.state, self._catalog, self._encoders)
        if schemas:
            self._commit()
            # What is being told of topics is of those that were there before.
            self._looking = None
            renew(core, self._encoders, schemas)
            made = self._encoders.topics(schema.full_name for schema in schemas)
            core.state = self._with_topics(
                core, {**core.state.topics, **{table: info.topic_id for table, info in made.items()}}
            )
            self._commit()

    def _copy(self, core: Replicator) -> None:
        """A step of the oldest snapshot that is owed, in the stream's groups."""
        copying = self._copying
        if copying is None:
            if not core.state.jobs:
                return
            copying = self._copying = SnapshotJob(
                core.state.jobs[0],
                core,
                self._source,
                self._catalog.shape,
                self._clock,
                self._watcher,
                self._upstream.reader,
            )
        copying.step()
        if core.pending and self._group_since_s is None:
            self._group_since_s = self._clock.monotonic_s()
        if copying.done:
            self._copying = None
            copying.close()
            # An answer in doubt is asked for again under its id, and must find itself done.
            self._commit()
            self._desk.close(copying.id)


def _chosen(asked: tuple[str, ...], tables: Collection[str]) -> list[str]:
    """Full names of the tables asked for, all without any; raises `SettingsError` for one that is not captured."""
    names, unknown = full_names(asked, tables)
    if unknown:
        raise SettingsError(
            "no such table is captured", tables=unknown, allowed=sorted(tables), fix="Correct --tables or the source."
        )
    return list(names)
