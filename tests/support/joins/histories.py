"""Random histories of tables, their logs, and what SQL says of the tables in the end."""

from __future__ import annotations

import random
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import orjson

from include.join.algorithm.batch import BucketChanges, JoinOutput, apply
from include.join.algorithm.floors import touches_of_floor
from include.join.algorithm.moves import encoded_join_key, touches_of_change
from include.join.algorithm.row import OutputShare, Row, Touch
from include.join.algorithm.shape import JoinShape, KeyFrame
from include.join.algorithm.whereabouts import RowSighting, locate

__all__ = ["History", "Record", "Run", "State", "Values", "expected", "table_of"]

_JOIN_KEYS = 3
_PARTITIONS = 2

Values = tuple[int | None, int, int]
"""(join key, a value, a group)."""


@dataclass(frozen=True)
class Record:
    """A record of an input; None where there is no row. A floor has neither key nor rows."""

    key: bytes
    version: int
    before: Values | None = None
    after: Values | None = None


class State(dict[bytes, bytes]):
    """A bucket in memory."""

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:  # type: ignore[override]
        return [super(State, self).get(key) for key in keys]

    def scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return ((key, self[key]) for key in sorted(self) if key.startswith(prefix) and key >= start)

    def take(self, rows: dict[bytes, bytes | None]) -> None:
        for key, value in rows.items():
            if value is None:
                self.pop(key, None)
            else:
                self[key] = value


@dataclass
class History:
    """Random tables of a random join, and the logs of their changes.

    `grouped`: rows of some inputs compete for places (`pkey`); the outputs' key has a value of others beside their own
    key (`wide`). `plain`: some inputs are `located`: their records have
    no image of before, and their rows may move between partitions.
    """

    seed: int
    changes: int = 25
    grouped: bool = False
    plain: bool = True
    keys: int = 4
    tables: list[dict[bytes, Values]] = field(init=False)
    rows: list[dict[bytes, int]] = field(init=False)
    logs: list[list[list[Record]]] = field(init=False)
    floors: list[list[Record]] = field(init=False)
    order: list[tuple[int, int, Record]] = field(init=False, default_factory=list)
    """(input, partition, record) in the order in which they were written; partition -1: a floor."""

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        n = self.draw.randint(2, 4)
        self.optional = (False, *(self.draw.random() < 0.5 for _ in range(n - 1)))
        self.located = tuple(self.plain and self.draw.random() < 0.3 for _ in range(n))
        self.distinct = tuple(not self.grouped or self.draw.random() < 0.3 for _ in range(n))
        drawn = random.Random(self.seed * 7919 + 1)
        self.wide = tuple(self.grouped and each and drawn.random() < 0.5 for each in self.distinct)
        self.where = tuple(self.draw.random() < 0.2 for _ in range(n))
        self._null_keys = self.draw.random() < 0.5
        self.tables = [{} for _ in range(n)]
        self.rows = [{} for _ in range(n)]
        self._counters = [0] * n
        self.logs = [[[] for _ in range(_PARTITIONS)] for _ in range(n)]
        self.floors = [[] for _ in range(n)]
        for _ in range(self.draw.randint(1, self.changes)):
            self._change(self.draw.randrange(n))

    @property
    def inputs(self) -> range:
        """Their positions."""
        return range(len(self.optional))

    def alone(self, i: int) -> bool:
        """Whether a row of this input has an output without others."""
        return i == 0 and all(self.optional[1:])

    def shape(self, max_product: int = 10_000) -> JoinShape:
        """What the algorithm is told."""
        return JoinShape(
            self.optional,
            self.distinct,
            tuple(False for _ in self.optional),
            _Projection(self),
            key=KeyFrame(b"<", b",", b">"),
            key_fields=tuple((i, 0) for i in self.inputs),
            value=KeyFrame(b"(", b",", b")"),
            max_product=max_product,
        )

    def _values(self) -> Values:
        join_key = None if self._null_keys and self.draw.random() < 0.2 else self.draw.randrange(_JOIN_KEYS)
        return join_key, self.draw.randrange(3), self.draw.randrange(2)

    def _change(self, i: int) -> None:
        draw, table = self.draw, self.tables[i]
        key = b"%d" % draw.randrange(self.keys)
        kind = draw.choice(["put"] * 6 + ["delete", "delete", "again", "rename", "replace", "rare"])
        if kind == "put":
            self._put(i, key, self._values())
        elif key in table and kind == "delete":
            self._put(i, key, None)
        elif key in table and kind == "again":
            self._put(i, key, table[key])
        elif key in table and kind == "rename":
            values = table[key]
            self._put(i, key, None)
            self._put(i, b"%d" % draw.randrange(self.keys), values)
        elif key in table and kind == "replace":
            self._put(i, key, None)
            self._put(i, key, self._values())
        elif kind == "rare" and draw.random() < 0.5:
            self._truncate(i)
        elif kind == "rare":
            self._gap(i)

    def _truncate(self, i: int) -> None:
        self.tables[i].clear()
        self.rows[i].clear()
        self._counters[i] += 1
        self._floor(i, self._counters[i])

    def _floor(self, i: int, floor: int) -> None:
        self.floors[i].append(Record(b"", floor))
        self.order.append((i, -1, self.floors[i][-1]))

    def _gap(self, i: int) -> None:
        """Changes that nobody saw, then each row as it stands, then the floor."""
        table = self.tables[i]
        for key in list(table):
            if self.draw.random() < 0.3:
                del table[key], self.rows[i][key]
            elif self.draw.random() < 0.5:
                table[key] = self._values()
        floor = self._counters[i] + 1
        for key, values in table.items():
            self._log(i, key, None, values)
        self._counters[i] = max(self._counters[i], floor)
        self._floor(i, floor)

    def _put(self, i: int, key: bytes, values: Values | None) -> None:
        before = self.tables[i].get(key)
        if values is None:
            del self.tables[i][key], self.rows[i][key]
        else:
            self.tables[i][key] = values
        self._log(i, key, before, values)

    def _log(self, i: int, key: bytes, before: Values | None, after: Values | None) -> None:
        self._counters[i] += 1
        if after is not None:
            self.rows[i][key] = self._counters[i]
        moves = self.located[i] and self.draw.random() < 0.3
        partition = self.draw.randrange(_PARTITIONS) if moves else zlib.crc32(key) % _PARTITIONS
        self.logs[i][partition].append(Record(key, self._counters[i], before, after))
        self.order.append((i, partition, self.logs[i][partition][-1]))


@dataclass(frozen=True)
class _Projection:
    history: History

    def entry(self, input: int, key: bytes, row: Row) -> OutputShare | None:
        join, value, group = orjson.loads(row.body)
        if self.history.where[input] and value == 2:
            return None
        named = key.decode() if self.history.distinct[input] else f"{join}/{group}"
        named += f"/{value}" if self.history.wide[input] else ""
        return OutputShare(row.version, key, (named.encode(),), b"%d" % value)

    def absent(self, input: int) -> OutputShare:
        return OutputShare(None, b"", (b"-",), b"-")


class Run:
    """A join of a history's logs, batch by batch."""

    def __init__(self, history: History, buckets: int = 3, shape: JoinShape | None = None) -> None:
        self.history = history
        self.shape = shape or history.shape()
        self.states = [State() for _ in range(buckets)]
        self.firsts = [State() for _ in range(buckets)]
        self.outputs: list[JoinOutput] = []
        self.event_versions: dict[int, int] = {}
        self.at = [[0] * _PARTITIONS for _ in history.inputs]
        self.floors_at = [0 for _ in history.inputs]
        self.floor = [0 for _ in history.inputs]
        self.base = 1

    def batch(self, ends: Sequence[Sequence[int]], floors_ends: Sequence[int]) -> None:
        """Read to these ends; the work of each bucket is done twice, and must be the same."""
        touches: list[list[Touch]] = [[] for _ in self.states]
        sightings: list[list[RowSighting]] = [[] for _ in self.firsts]
        for i in self.history.inputs:
            for record in self.history.floors[i][self.floors_at[i] : floors_ends[i]]:
                self._take_floor(i, record, touches)
            self.floors_at[i] = floors_ends[i]
        for i in self.history.inputs:
            for partition in range(_PARTITIONS):
                for record in self.history.logs[i][partition][self.at[i][partition] : ends[i][partition]]:
                    self._take(i, record, touches, sightings)
                self.at[i][partition] = ends[i][partition]
        complete = self._complete()
        for state, mine in zip(self.firsts, sightings, strict=True):
            located = locate(mine, state, complete=complete)
            self.history.draw.shuffle(mine)
            assert locate(mine, state, complete=complete) == located
            state.take(located.rows)
            self._spread(located.touches, touches)
        for bucket, (state, due) in enumerate(zip(self.states, touches, strict=True)):
            made = self._applied(bucket, due)
            self.history.draw.shuffle(due)
            assert self._applied(bucket, due) == made
            for applied in made:
                state.take(applied.rows)
                self.outputs += applied.outputs

    def _applied(self, bucket: int, touches: list[Touch]) -> list[BucketChanges]:
        return [apply(touches, self.states[bucket], self.shape)]

    def to_the_end(self) -> None:
        """Batches of random sizes, until all is read."""
        draw, logs, floors = self.history.draw, self.history.logs, self.history.floors
        most = draw.choice([1, 3, 10, 100])
        while not self._complete():
            ends = [
                [min(len(log), at + draw.randint(0, most)) for log, at in zip(of, ats, strict=True)]
                for of, ats in zip(logs, self.at, strict=True)
            ]
            floor_ends = [
                min(len(log), at + draw.randint(0, 1)) for log, at in zip(floors, self.floors_at, strict=True)
            ]
            # A floor is read no sooner than the rows that were written before it.
            self.batch(ends, floor_ends)

    def _complete(self) -> bool:
        logs = self.history.logs
        rows = all(
            len(log) == at for of, ats in zip(logs, self.at, strict=True) for log, at in zip(of, ats, strict=True)
        )
        return rows and all(len(log) == at for log, at in zip(self.history.floors, self.floors_at, strict=True))

    def _rank(self, record: Record) -> int:
        self.base += 1
        self.event_versions[self.base] = record.version
        return self.base

    def _take_floor(self, i: int, record: Record, touches: list[list[Touch]]) -> None:
        rank = self._rank(record)
        self.floor[i] = max(self.floor[i], record.version)
        for state, mine in zip(self.states, touches, strict=True):
            mine += touches_of_floor(state, i, record.version, rank)

    def _take(self, i: int, record: Record, touches: list[list[Touch]], sightings: list[list[RowSighting]]) -> None:
        rank = self._rank(record)
        if record.version < self.floor[i]:
            return
        after = self._join_key(i, record.key, record.after)
        row = None if record.after is None or after is None else Row(record.version, i, orjson.dumps(record.after))
        if self.history.located[i]:
            at = zlib.crc32(record.key) % len(sightings)
            sightings[at].append(RowSighting(i, record.key, rank, record.version, after, row))
            return
        before = self._join_key(i, record.key, record.before)
        self._spread(
            touches_of_change(i, record.key, rank, record.version, before=before, after=after, row=row), touches
        )

    def _spread(self, moves: Sequence[Touch] | Iterator[Touch], touches: list[list[Touch]]) -> None:
        for touch in moves:
            touches[zlib.crc32(touch.join_key) % len(touches)].append(touch)

    def _join_key(self, i: int, key: bytes, values: Values | None) -> bytes | None:
        if values is None:
            return None
        named = None if values[0] is None else b"%d" % values[0]
        return encoded_join_key(named, self._group(i, key, values) if self.history.alone(i) else None)

    def _group(self, i: int, key: bytes, values: Values) -> bytes:
        if self.history.wide[i]:
            return b"%b/%d" % (key, values[1])
        return key if self.history.distinct[i] else b"%d" % values[2]


def table_of(outputs: Sequence[JoinOutput]) -> dict[bytes, bytes]:
    """What a sink has that keeps the newest version of each key, in whatever order they come."""
    newest: dict[bytes, JoinOutput] = {}
    for output in outputs:
        other = newest.get(output.key)
        if other is None or other.version < output.version:
            newest[output.key] = output
    return {key: output.value for key, output in newest.items() if output.value is not None}


_DATABASE = sqlite3.connect(":memory:")
for _i in range(4):
    _DATABASE.execute(f"CREATE TABLE t{_i} (k TEXT, j INT, v INT, g INT, n INT)")


def expected(history: History) -> dict[bytes, bytes]:
    """What SQL says of the tables as they are in the end."""
    for i in history.inputs:
        _DATABASE.execute(f"DELETE FROM t{i}")
        rows = [(key.decode(), *values, history.rows[i][key]) for key, values in history.tables[i].items()]
        _DATABASE.executemany(f"INSERT INTO t{i} VALUES (?, ?, ?, ?, ?)", rows)
    query = "SELECT * FROM " + _filtered(history, 0)
    for i in history.inputs[1:]:
        query += f" {'LEFT' if history.optional[i] else 'INNER'} JOIN {_filtered(history, i)} ON t{i}.j = t0.j"
    newest: dict[bytes, tuple[tuple[list[int], list[str]], bytes]] = {}
    for found in _DATABASE.execute(query):
        parts = [found[5 * i : 5 * i + 5] for i in history.inputs]
        key = ",".join(_group(history, i, part) for i, part in enumerate(parts))
        value = ",".join("-" if part[0] is None else str(part[2]) for part in parts)
        order = [(part[4] or 0, part[0] or "") for part in parts]
        vector = ([version for version, _ in order], [name for _, name in order])
        kept = newest.get(f"<{key}>".encode())
        if kept is None or kept[0] < vector:
            newest[f"<{key}>".encode()] = (vector, f"({value})".encode())
    return {key: value for key, (_, value) in newest.items()}


def _filtered(history: History, i: int) -> str:
    return f"(SELECT * FROM t{i} WHERE v != 2) AS t{i}" if history.where[i] else f"t{i}"


def _group(history: History, i: int, part: Sequence[object]) -> str:
    if part[0] is None:
        return "-"
    if history.wide[i]:
        return f"{part[0]}/{part[2]}"
    return str(part[0]) if history.distinct[i] else f"{part[1]}/{part[3]}"
