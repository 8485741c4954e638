"""What a change costs in each step of a join's worker, without Kafka and Spark: gather, hand over, apply to a bucket.

`python -m tests.bench.join.steps`: inputs on one join key with one row each; each change is of another join key. All
times are of this process's CPU, in microseconds a change.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from include.clock import SystemClock
from include.join.bucket import apply_work
from include.join.config.check import CheckedJoin, checked_join
from include.join.config.definition import JoinFile
from include.join.gathering import RecordGathering, RecordWork
from include.join.takeover import Edition, definition_of
from include.join.task import equipped
from include.log import topics
from include.log.memory import MemoryLog
from include.log.ports import Record, TopicSpec
from include.log.registry.memory import MemoryRegistry
from include.record.change import Change, Op, SourceBlock
from include.record.codec import Encoder
from include.record.schema import Column, TableSchema
from include.record.version import to_header
from include.settings.deployment import Deployment
from include.state.opening import StatePlace, open_bucket
from include.store.memory import MemoryStore

_BUCKETS = 16


def main() -> int:
    """Run, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=3)
    parser.add_argument("--keys", type=int, default=50_000, help="rows of each input that the state has")
    parser.add_argument("--changes", type=int, default=20_000, help="of a batch")
    parser.add_argument("--rounds", type=int, default=3, help="batches; the median is told")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        world = _Harness(arguments.inputs, Path(folder))
        world.batch(world.changes(range(arguments.keys), "c"))
        draw = random.Random(1)
        found = []
        for _ in range(arguments.rounds):
            # One change a join key, as neighbours of a key would share what is read of it.
            keys = draw.sample(range(arguments.keys), arguments.changes)
            found.append(world.batch(world.changes(keys, "u", draw)))
    steps = {name: sorted(each[name] for each in found)[len(found) // 2] for name in found[0]}
    if arguments.json:
        print(json.dumps(steps))
        return 0
    for name, us in steps.items():
        print(f"{name:>12} {us:8.2f} us a change")
    print(f"{'together':>12} {sum(steps.values()):8.2f}")
    return 0


class _Harness:
    """A join of inputs with the same columns."""

    def __init__(self, inputs: int, folder: Path) -> None:
        log, registry = MemoryLog(), MemoryRegistry()
        self.tables = [
            TableSchema(
                "shop",
                f"t{i}",
                (Column("id", "bigint"), Column("k", "bigint"), Column(f"n{i}", "int"), Column(f"pad{i}", "varchar")),
                ("id",),
            )
            for i in range(inputs)
        ]
        self.encoders: list[tuple[Encoder, Encoder]] = []
        for table in self.tables:
            topic = topics.change("shop", "shop", table.table)
            log.admin().ensure(TopicSpec(topic, 2, topics.policy(topic)))
            pair = []
            for part, schema in (("key", table.key_avro("shop")), ("value", table.envelope_avro("shop"))):
                pair.append(Encoder(registry.register(f"{topic}-{part}", schema, "NONE"), schema))
            self.encoders.append((pair[0], pair[1]))
        self.topics = [topics.change("shop", "shop", table.table) for table in self.tables]
        join = JoinFile.model_validate(
            {
                "join": [
                    {"topic": topic, "join_keys": ["k"], "aliases": [{"from": "id", "to": f"id{i}"}]}
                    for i, topic in enumerate(self.topics)
                ],
                "output": {"namespace": "bench", "source": "joined"},
                "buckets": _BUCKETS,
            }
        )
        checked: CheckedJoin = checked_join(Deployment.__new__(Deployment), join, registry, log.admin())
        edition = Edition(definition_of(join, self.topics), checked, tuple(range(inputs)), (98, 99))
        self.shape, self.readers = equipped(edition, registry, edition.slots)
        self.place = StatePlace(str(folder / "state"), "state/joined/")
        self.store = MemoryStore(SystemClock())
        self.pointers: dict[int, bytes] = {}
        self.version = self.rank = 0

    def changes(self, keys: Iterable[int], op: Op, draw: random.Random | None = None) -> list[Record]:
        """A change of each input's row of each key; with `draw` of one of them."""
        records: list[Record] = []
        for key in keys:
            inputs = range(len(self.tables)) if draw is None else [draw.randrange(len(self.tables))]
            for i in inputs:
                table = self.tables[i]
                self.version += 1
                after = {"id": key, "k": key, f"n{i}": self.version & 0xFFFF, f"pad{i}": "x" * 180}
                before = {**after, f"n{i}": 0} if op == "u" else None
                source = SourceBlock("1", "shop", "shop", table.table, 1, "bin.000001", self.version, 0, 1)
                value = self.encoders[i][1](
                    Change(op=op, before=before, after=after, source=source, ts_us=1).envelope()
                )
                headers = (to_header(self.version),)
                at = self.rank + len(records)
                records.append(Record(self.topics[i], key & 1, at, self.encoders[i][0]({"id": key}), value, headers, 0))
        return records

    def batch(self, records: list[Record]) -> dict[str, float]:
        """The work of a batch; step → microseconds a change."""
        spent: dict[str, float] = defaultdict(float)
        bases = {(topic, partition): 0 for topic in self.topics for partition in (0, 1)}
        self.rank += len(records)
        messages = [_Message(record) for record in records]
        with _Timed(spent, "gather"):
            gathering = RecordGathering(self.readers, bases, {}, _BUCKETS)
            gathering.take_all(messages, lambda message: message.told)
        with _Timed(spent, "pack"):
            frames = gathering.work()
        for bucket, frame in frames.items():
            with _Timed(spent, "unpack"):
                work = RecordWork.unpack([frame])
            with _Timed(spent, "open, close"):
                opened = open_bucket(self.place, self.store, "rows", bucket, self.pointers.get(bucket))
                state = opened.__enter__()
            spied = _Spied(state, spent)
            begun = time.process_time()
            result = apply_work(work, (), spied, self.shape)
            spent["apply"] += time.process_time() - begun
            with _Timed(spent, "open, close"):
                opened.__exit__(None, None, None)
            if result.pointer is not None:
                self.pointers[bucket] = result.pointer
            with _Timed(spent, "results"):
                result.outputs[:] = map(tuple, result.outputs)  # type: ignore[arg-type]
                pickle.loads(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
        spent["apply"] -= spent["get, scan"] + spent["commit"]
        return {name: each * 1e6 / len(records) for name, each in spent.items()}


class _Message:
    """A record as Kafka's client has it."""

    def __init__(self, told: Record) -> None:
        self.told = told
        self.topic, self.partition, self.offset = (lambda: told.topic), (lambda: told.partition), (lambda: told.offset)
        self.key, self.value = (lambda: told.key), (lambda: told.value)
        self.headers = lambda: list(told.headers)


class _Spied:
    """A bucket whose calls are timed."""

    def __init__(self, state: Any, spent: dict[str, float]) -> None:
        self._state, self._spent = state, spent

    def get(self, keys: Any) -> Any:
        with _Timed(self._spent, "get, scan"):
            return self._state.get(keys)

    def scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        with _Timed(self._spent, "get, scan"):
            return iter(list(self._state.scan(prefix, start)))

    def commit(self, rows: Any, *, more: Any = None) -> bytes:
        with _Timed(self._spent, "commit"):
            pointer: bytes = self._state.commit(rows, more=more)
            return pointer


class _Timed:
    def __init__(self, spent: dict[str, float], name: str) -> None:
        self._spent, self._name = spent, name

    def __enter__(self) -> None:
        self._begun = time.process_time()

    def __exit__(self, *_: object) -> None:
        self._spent[self._name] += time.process_time() - self._begun


if __name__ == "__main__":
    sys.exit(main())
