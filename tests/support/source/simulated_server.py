"""A simulated server with one table: what its writers did, its stream, its snapshots; and steps that end who asks it.

A step is a call to the server, or to what `Steps.around` is put around: before it has its effect, or after, its answer
lost. Who is killed at one says goodbye to nobody; who meets an error hangs up.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import compress
from typing import Any, Literal

from include.clock import Clock, ManualClock
from include.errors import Transient
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.binlog.transaction import RowsEvent, SourceTransaction
from include.source.database.server import Server
from include.source.database.table_info import TableInfo
from include.source.database.transaction_stream import BinlogIdle
from include.source.definition import SourceDefinition
from include.source.ports import SessionWatcher
from include.source.rows.shape import EncodedImage, TableShape
from include.source.rows.text import row_reader
from include.source.snapshot.reader import DescribedTable, Measure
from include.source.snapshot.watermark_window import SnapshotSpan
from tests.support.binlog.recorded_mariadb import SCHEMA, Row, rows, transaction

__all__ = ["How", "Killed", "SimulatedServer", "Steps", "Story", "position"]

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
            steps: list[RowsEvent | str] = []
            for _ in range(chance.choice((0, 1, 1, 2, 3, 9))):
                steps += self._change(state, chance, number)
            if number == transactions * 2 // 3:
                steps.append("TRUNCATE TABLE t")
                state.clear()
            self.states.append(state)
            self.transactions.append(transaction(number, *steps))

    @staticmethod
    def _change(state: State, chance: random.Random, number: int) -> list[RowsEvent | str]:
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

    def __init__(self, upstream: SimulatedServer) -> None:
        self._upstream = upstream
        self._open: int | None = None
        self._shown = -1
        self._tables = sqlite3.connect("file::memory:", uri=True, check_same_thread=False, isolation_level=None)
        self._tables.execute("ATTACH ':memory:' AS shop")
        self._tables.execute("CREATE TABLE shop.t (id int PRIMARY KEY, part int, v text)")

    def open(self, beyond: SourcePosition | None = None) -> SnapshotSpan:
        self._open = self._upstream.committed
        found = position(self._open)
        assert beyond is None or found.covers(beyond)
        return SnapshotSpan(found, found)

    def ask(self, sql: str, *_values: Any) -> list[tuple[Any, ...]]:
        at = self._upstream.committed if self._open is None else self._open
        if at != self._shown:
            self._tables.execute("DELETE FROM shop.t")
            self._tables.executemany(
                "INSERT INTO shop.t VALUES (?, ?, ?)", list(self._upstream.story.states[at].values())
            )
            self._shown = at
        return self._tables.execute(sql).fetchall()

    def describe(self, _database: str, _table: str) -> DescribedTable:
        return DescribedTable(self._upstream.info, "id int(11) ")

    def measure(self, _database: str, _table: str) -> Measure:
        return Measure(8, 800)

    def select(self, sql: str, shape: TableShape) -> Iterator[list[EncodedImage]]:
        read = row_reader(shape)
        for row in self.ask(sql):
            yield [read(tuple(None if value is None else str(value).encode() for value in row))]

    def end(self) -> None:
        self._open = None

    def interrupt(self) -> None:
        """It never waits."""

    def close(self) -> None:
        """SQLite's memory goes with the object: the thread that reads may be amid a query."""


class SimulatedServer:
    """The server: `committed` transactions are done; the stream pulls it on."""

    server = SERVER

    def __init__(self, story: Story, steps: Steps, chance: random.Random) -> None:
        self.story, self.committed = story, 0
        self.info = TableInfo("shop", "t")
        self.info.columns, self.info.key = list(SCHEMA.columns), SCHEMA.key
        self._steps, self._chance = steps, chance
        # Writers pause after so many.
        self.until = len(story.transactions)
        self.captures: Callable[[str, str], bool] = lambda _database, _table: True

    def tables(self) -> Mapping[tuple[str, str], TableInfo]:
        self._steps.step("tables")
        return {("shop", "t"): self.info} if self.captures("shop", "t") else {}

    def check(self) -> None:
        pass

    def names(self) -> list[tuple[str, str]]:
        self._steps.step("names")
        return [("shop", "t")] if self.captures("shop", "t") else []

    def table(self, _database: str, _table: str) -> TableInfo | None:
        self._steps.step("table")
        return self.info

    def cascades_into(self, _database: str, _table: str) -> bool:
        return False

    def changes_others(self, _database: str, _table: str) -> bool:
        return False

    def untraced_cascades(self, _database: str, _table: str) -> bool:
        return False

    def now_us(self) -> int:
        return 0

    def there(self, found: SourcePosition) -> SourcePosition:
        self._steps.step("there")
        return found

    def first_position(self, _clock: Clock, _watcher: SessionWatcher) -> SourcePosition:
        self._steps.step("first position")
        return position(self.committed)

    def flow(self, after: SourcePosition, _waiting: object, _survives: object, clock: ManualClock) -> _Flow:
        self._steps.step("flow")
        return _Flow(self, after.binlog.pos // 100, clock, self._steps, self._chance)

    def reader(self, _source: SourceDefinition, _clock: Clock) -> _Reader:
        return _Reader(self)


class _Flow:
    def __init__(
        self, upstream: SimulatedServer, done: int, clock: ManualClock, steps: Steps, chance: random.Random
    ) -> None:
        self._upstream, self._next, self._clock, self._steps, self._chance = upstream, done, clock, steps, chance

    def next(self, _timeout_s: float) -> SourceTransaction | BinlogIdle | None:
        upstream = self._upstream
        story = upstream.story.transactions[: upstream.until]
        self._clock.advance(self._chance.choice((0.02, 0.05, 0.3)))
        # What was committed may be shown by a snapshot before it comes here.
        upstream.committed = min(len(story), max(upstream.committed, self._next + self._chance.randint(0, 3)))
        if self._next < upstream.committed:
            self._steps.step("next")
            self._next += 1
            return self._passing(story[self._next - 1])
        time.sleep(0.0003)
        return BinlogIdle(position(self._next).binlog, self._next * 1_000_000) if self._next == len(story) else None

    def _passing(self, transaction: SourceTransaction) -> SourceTransaction:
        steps = transaction.steps
        passes = [
            not isinstance(s, RowsEvent) or self._upstream.captures(s.table.database, s.table.table) for s in steps
        ]
        return replace(transaction, steps=tuple(compress(steps, passes)))

    def waiting(self, known: tuple[Any, ...], _position: SourcePosition) -> tuple[Any, ...]:
        return known

    def heard(self) -> None:
        pass

    def close(self) -> None:
        pass
