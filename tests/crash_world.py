"""Capture's sessions on the log in memory and a made-up server, cut off at any numbered step, and begun again.

A step is a call to the log (before it has its effect, or after, its answer lost), to the registry, or to the server. A
session that is killed says goodbye to nobody; one that meets an error hangs up. What a reader of committed records
finds in the end is judged by the story that the server told.
"""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from include.clock import Clock, ManualClock
from include.errors import Transient
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import LogWriter, Record
from include.log.requests import Answer, Request, RequestKind
from include.log.resolved import ResolvedView
from include.log.topics import change, control, source_answers, source_requests, source_resolved
from include.record.codec import Decoder
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.record.version import from_headers, number_of
from include.source.definition import SourceDefinition
from include.source.direct_log import DirectLog, LogPorts, ensure_topics, transactional_id
from include.source.group import Group
from include.source.inflow import Idle
from include.source.ports import Watcher
from include.source.seam import Span
from include.source.server import Server
from include.source.session import Session
from include.source.shape import Image, Shape
from include.source.snapshot_reader import Described, Measure
from include.source.tables import TableInfo
from include.source.text import row_reader
from include.source.transaction import Rows, SourceTransaction
from tests.mariadb_golden import SCHEMA, Row, rows, transaction

__all__ = ["CrashWorld", "How", "crashed"]

TOPIC = change("s", "shop", "t")
SERVER = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB-log", gtids=True)
State = dict[int, Row]
How = Literal["kill", "error"]
"""kill: nobody says goodbye; error: what was called fails, and the session hangs up."""


class Killed(BaseException):
    """The process is gone: nothing catches this."""


class Steps:
    """Counts steps, and ends the session at one of them."""

    def __init__(self) -> None:
        self.count, self.at, self.dead = 0, 0, False
        self.how: How = "kill"
        self._thread = threading.get_ident()

    def arm(self, at: int, how: How) -> None:
        """The session to come ends at step `at`; 0: at none."""
        self.count, self.at, self.how, self.dead = 0, at, how, False

    def step(self, name: str) -> None:
        # Threads that read tables have no steps of their own: what they have is lost with the session.
        if threading.get_ident() != self._thread:
            return
        self.count += 1
        if self.count == self.at:
            self.dead = True
            if self.how == "kill":
                raise Killed(name)
            raise Transient(f"broken at {name}", system="test")

    def around(self, inner: Any, free: tuple[str, ...] = ("close",)) -> Any:
        """`inner`, with a step before and after each call; once the session has been killed `close` does nothing."""
        return _Around(self, inner, free)


class _Around:
    def __init__(self, steps: Steps, inner: Any, free: tuple[str, ...]) -> None:
        self._steps, self._inner, self._free = steps, inner, free

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in self._free:
            return (lambda: None) if self._steps.dead and self._steps.how == "kill" else found

        def call(*values: Any, **named: Any) -> Any:
            self._steps.step(f"before {name}")
            answer = found(*values, **named)
            self._steps.step(f"after {name}")
            return answer

        return call


class Story:
    """What writers did to one table, one transaction after another, and the table after each."""

    def __init__(self, seed: int, transactions: int = 24) -> None:
        chance = random.Random(seed)
        self.states: list[State] = [{n: (n, n % 3, "old") for n in range(1, 9)}]
        self.transactions: list[SourceTransaction] = []
        for number in range(1, transactions + 1):
            state = dict(self.states[-1])
            steps: list[Rows | str] = []
            for _ in range(chance.choice((0, 1, 1, 2, 3, 9))):
                steps += self._change(state, chance, number)
            if number == transactions * 2 // 3:
                steps.append("TRUNCATE TABLE t")
                state.clear()
            self.states.append(state)
            self.transactions.append(transaction(number, *steps))

    @staticmethod
    def _change(state: State, chance: random.Random, number: int) -> list[Rows | str]:
        id_ = chance.randint(1, 14)
        old, new = state.get(id_), (id_, chance.randint(0, 2), f"v{number}")
        if old is None:
            state[id_] = new
            return [rows("c", new)]
        if chance.random() < 0.3:
            del state[id_]
            return [rows("d", old)]
        moved = id_ + 20
        if chance.random() < 0.2 and moved not in state:
            del state[id_]
            state[moved] = (moved, *new[1:])
            return [rows("u", old, state[moved])]
        state[id_] = new
        return [rows("u", old, new)]


def position(number: int) -> SourcePosition:
    """After so many transactions."""
    gtids = MariadbGtidSet.parse(f"0-1-{number}" if number else "")
    return SourcePosition("mariadb", gtids, BinlogPosition("bin.000001", 4 + number * 100), number * 1_000_000)


class _Reader:
    """A `SnapshotReader` of the made-up server, which is SQLite inside."""

    server = SERVER

    def __init__(self, upstream: _Upstream) -> None:
        self._upstream = upstream
        self._open: int | None = None
        self._shown = -1
        self._tables = sqlite3.connect("file::memory:", uri=True, check_same_thread=False, isolation_level=None)
        self._tables.execute("ATTACH ':memory:' AS shop")
        self._tables.execute("CREATE TABLE shop.t (id int PRIMARY KEY, part int, v text)")

    def open(self, beyond: SourcePosition | None = None) -> Span:
        self._open = self._upstream.committed
        found = position(self._open)
        assert beyond is None or found.covers(beyond)
        return Span(found, found)

    def ask(self, sql: str, *_values: Any) -> list[tuple[Any, ...]]:
        at = self._upstream.committed if self._open is None else self._open
        if at != self._shown:
            self._tables.execute("DELETE FROM shop.t")
            self._tables.executemany(
                "INSERT INTO shop.t VALUES (?, ?, ?)", list(self._upstream.story.states[at].values())
            )
            self._shown = at
        return self._tables.execute(sql).fetchall()

    def describe(self, _database: str, _table: str) -> Described:
        return Described(self._upstream.info, "id int(11) ")

    def measure(self, _database: str, _table: str) -> Measure:
        return Measure(8, 800)

    def select(self, sql: str, shape: Shape) -> Iterator[list[Image]]:
        read = row_reader(shape)
        for row in self.ask(sql):
            yield [read(tuple(None if value is None else str(value).encode() for value in row))]

    def end(self) -> None:
        self._open = None

    def close(self) -> None:
        """SQLite's memory goes with the object: the thread that reads may be amid a query."""


class _Upstream:
    """The server: `committed` transactions are done; the stream pulls it on."""

    server = SERVER

    def __init__(self, story: Story, steps: Steps, chance: random.Random) -> None:
        self.story, self.committed = story, 0
        self.info = TableInfo("shop", "t")
        self.info.columns, self.info.key = list(SCHEMA.columns), SCHEMA.key
        self._steps, self._chance = steps, chance

    def tables(self) -> Mapping[tuple[str, str], TableInfo]:
        self._steps.step("tables")
        return {("shop", "t"): self.info}

    def names(self) -> list[tuple[str, str]]:
        self._steps.step("names")
        return [("shop", "t")]

    def table(self, _database: str, _table: str) -> TableInfo | None:
        self._steps.step("table")
        return self.info

    def cascades_into(self, _database: str, _table: str) -> bool:
        return False

    def there(self, found: SourcePosition) -> SourcePosition:
        self._steps.step("there")
        return found

    def first_position(self, _clock: Clock, _watcher: Watcher) -> SourcePosition:
        self._steps.step("first position")
        return position(self.committed)

    def flow(self, after: SourcePosition, _waiting: object, _survives: object, clock: ManualClock) -> _Flow:
        self._steps.step("flow")
        return _Flow(self, after.binlog.pos // 100, clock, self._steps, self._chance)

    def reader(self, _source: SourceDefinition, _clock: Clock) -> _Reader:
        return _Reader(self)


class _Flow:
    def __init__(self, upstream: _Upstream, done: int, clock: ManualClock, steps: Steps, chance: random.Random) -> None:
        self._upstream, self._next, self._clock, self._steps, self._chance = upstream, done, clock, steps, chance

    def next(self, _timeout_s: float) -> SourceTransaction | Idle | None:
        self._steps.step("next")
        story, upstream = self._upstream.story.transactions, self._upstream
        self._clock.advance(self._chance.choice((0.02, 0.05, 0.3)))
        # What was committed may be shown by a snapshot before it comes here.
        upstream.committed = min(len(story), max(upstream.committed, self._next + self._chance.randint(0, 3)))
        if self._next < upstream.committed:
            self._next += 1
            return story[self._next - 1]
        time.sleep(0.0003)
        return Idle(position(self._next).binlog, self._next * 1_000_000) if self._next == len(story) else None

    def waiting(self, known: tuple[Any, ...], _position: SourcePosition) -> tuple[Any, ...]:
        return known

    def heard(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Until(Watcher):
    """Ends a session when all that the story and the requests ask for is in the log."""

    def __init__(self, last: SourcePosition, requests: int) -> None:
        self._last, self._requests, self._done = last, requests, False

    def stop_requested(self) -> bool:
        return self._done

    def on_commit(self, group: Group, *, caught_up: bool) -> None:
        state = group.state
        asked = state.requests_next >= self._requests and not state.jobs
        self._done = asked and state.snapshot == "done" and group.position.covers(self._last)


class CrashWorld:
    """One story, one log, sessions one after another; `requests` are asked for before the first."""

    def __init__(self, seed: int, **more: Any) -> None:
        chance = random.Random(seed)
        self.story, self.steps = Story(seed), Steps()
        self.log, self.registry, self.clock = MemoryLog(), MemoryRegistry(), ManualClock()
        self._upstream = _Upstream(self.story, self.steps, chance)
        values = {"partitions": 3, "group_bytes": 900, "snapshot_workers": 1, "snapshot_chunk_rows": 100} | more
        self.source = SourceDefinition(host="db", port=1, user="u", password="p", databases=["shop"], **values)
        ensure_topics("s", self.log.admin())
        # The end of each transaction takes an offset, too.
        self._asked = 0
        self._ask(("r1", "snapshot"), ("r2", "resume_table"), ("r1", "snapshot"), ("r3", "snapshot"))
        self.crashes = 0

    def _ask(self, *requests: tuple[str, RequestKind]) -> None:
        asker = self.log.writer("asker")
        asker.begin()
        for id_, kind in requests:
            request = Request(id_, kind, "test", 1, ("t",))
            asker.append(source_requests("s"), request.key(), request.value())
        asker.commit()
        self._asked += len(requests) + 1

    def session(self, at: int = 0, how: How = "kill") -> bool:
        """One session, which step `at` ends; True when it came to its end."""
        self.steps.arm(at, how)
        if self.crashes:
            # Whoever asked has not heard yet.
            self._ask(("r1", "snapshot"))
        last = position(len(self.story.transactions))
        session: Session | None = None
        log = DirectLog("s", self._ports(), self.clock)
        try:
            session = Session("s", self.source, log, self._upstream, self.clock, _Until(last, self._asked))  # type: ignore[arg-type]
            if not session.begun:
                session.begin()
            session.stream()
        except (Killed, Transient):
            assert self.steps.dead
            self.crashes += 1
            return False
        finally:
            # Of a process that was killed this ends the threads alone.
            (session or log).close()
        return True

    def _ports(self) -> LogPorts:
        steps = self.steps

        def writer() -> LogWriter:
            steps.step("before open")
            opened = self.log.writer(transactional_id("s"))
            steps.step("after open")
            found: LogWriter = steps.around(opened)
            return found

        return LogPorts(
            writer,
            steps.around(self.log.reader(), ("close", "read")),
            steps.around(self.log.admin()),
            steps.around(self.registry),
        )

    def judge(self) -> None:
        """Fails unless the log is the story: see the names of what it calls."""
        self._versions_are_dense()
        self._each_change_is_there_once_and_in_order()
        self._each_resolved_record_says_the_truth()
        self._the_copy_is_the_table()
        self._each_request_is_answered_once()

    def _records(self, topic: str) -> list[Record]:
        reader = self.log.reader()
        return [
            record
            for partition, end in sorted(reader.end_offsets(topic).items())
            for record in reader.read(topic, partition, 0, end)
        ]

    def _envelopes(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        decode = Decoder(self.registry.schema)
        for record in self._records(TOPIC):
            if record.value is not None:
                yield record, decode(record.value)

    def _versions_are_dense(self) -> None:
        topics = (TOPIC, control("s"), source_resolved("s"), source_answers("s"))
        found = sorted({number_of(from_headers(r.headers)) for topic in topics for r in self._records(topic)})
        assert found == list(range(1, found[-1] + 1))

    def _each_change_is_there_once_and_in_order(self) -> None:
        places = defaultdict(list)
        for record, envelope in self._envelopes():
            if envelope["op"] != "r":
                number = int(envelope["source"]["gtid"].rpartition("-")[2])
                places[record.partition].append((number, envelope["source"]["row"], envelope["op"]))
        for found in places.values():
            assert [place[:2] for place in found] == sorted(place[:2] for place in found)
        each = Counter(place for found in places.values() for place in found)
        assert not [place for place, times in each.items() if times > 1]
        begin = self._resolved()[0][1]
        told = range(begin + 1, len(self.story.transactions) + 1)
        expected = {(number, row) for number in told for row in range(self._rows(number))}
        assert {(number, row) for number, row, _ in each} == expected

    def _rows(self, number: int) -> int:
        return sum(isinstance(step, Rows) for step in self.story.transactions[number - 1].steps)

    def _resolved(self) -> list[tuple[Mapping[tuple[str, int], int], int]]:
        view, found = ResolvedView(), []
        for record in self._records(source_resolved("s")):
            resolved = view.on_record(record.value)
            if resolved is not None:
                ends = view.ends()
                assert ends is not None
                found.append((ends, resolved.position.binlog.pos // 100))
        return found

    def _each_resolved_record_says_the_truth(self) -> None:
        changes = [
            (record, int(envelope["source"]["gtid"].rpartition("-")[2]))
            for record, envelope in self._envelopes()
            if envelope["op"] != "r"
        ]
        before: Mapping[tuple[str, int], int] = {}
        for ends, number in self._resolved():
            assert all(ends[place] >= end for place, end in before.items())
            before = ends
            for record, of in changes:
                assert (record.offset < ends.get((TOPIC, record.partition), 0)) == (of <= number)

    def _the_copy_is_the_table(self) -> None:
        floor = max((raw["floor"] for raw in self._controls() if raw["kind"] != "schema"), default=0)
        newest: dict[bytes | None, tuple[int, Record]] = {}
        for record in self._records(TOPIC):
            version = from_headers(record.headers)
            assert version >= newest.get(record.key, (0, record))[0]
            newest[record.key] = version, record
        decode = Decoder(self.registry.schema)
        alive = [decode(r.value)["after"] for version, r in newest.values() if r.value and version >= floor]
        found = {row["id"]: (row["id"], row["part"], row["v"]) for row in alive}
        assert found == self.story.states[-1]

    def _controls(self) -> list[dict[str, Any]]:
        return [json.loads(record.value) for record in self._records(control("s")) if record.value]

    def _each_request_is_answered_once(self) -> None:
        ends = Counter[tuple[str, str]]()
        for record in self._records(source_answers("s")):
            assert record.value is not None
            answer = Answer.parse(record.value)
            if answer.state in ("done", "refused"):
                ends[answer.id, answer.state] += 1
        assert ends == {("r1", "done"): 1, ("r2", "refused"): 1, ("r3", "done"): 1}


def crashed(seed: int, at: Callable[[int], int], how: How, **more: Any) -> CrashWorld:
    """A world whose n-th session ends at step `at(n)` (0: at none), judged at its end."""
    world = CrashWorld(seed, **more)
    number = 0
    while not world.session(at(number), how):
        number += 1
    world.judge()
    return world
