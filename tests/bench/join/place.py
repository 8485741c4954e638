"""Tables that the bench of joins fills, the joins of them, and how far these are."""

from __future__ import annotations

import base64
import itertools
import random
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from include.join.config.deployed import DeployedJoin, declared_joins
from include.join.status import JoinStatus, join_status
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.registry.confluent import ConfluentRegistry
from include.record.schema import Column, TableSchema
from include.settings.connections import StoreSettings
from include.settings.deployment import Deployment
from include.store.s3 import store_of
from tests.support.application_process import ApplicationProcess
from tests.support.servers.addresses import registry_url
from tests.support.source.captured_changes import CapturedChanges, Transaction

__all__ = ["KINDS", "JoinPlace", "Kind", "made_row"]

_PAD: Final = 135
"""Random bytes, in Base64: with them a row has 200."""
_HOT: Final = 1 << 40
_AT_ONCE: Final = 5_000
_PARTITIONS: Final = 2
_FILLED_WITHIN_S: Final = 900.0


@dataclass(frozen=True)
class Kind:
    """Joins to measure: of each its inputs, each with the column that it is joined by; `chain` reads the one before.

    `most`: outputs that a change may change.
    """

    joins: tuple[tuple[tuple[str, str], ...], ...]
    tables: tuple[str, ...]
    most: int = 100_000


KINDS: Final = {
    "three": Kind(((("t0", "k"), ("t1", "k"), ("t2", "k")),), ("t0", "t1", "t2")),
    "one": Kind(((("t0", "k"), ("t1", "k")),), ("t0", "t1")),
    # One join key has far more rows than others, and its changes more outputs than they may.
    "hot": Kind(((("t0", "k"), ("t1", "k")),), ("t0", "t1"), most=500),
    # Over two foreign keys: the second join reads what the first one writes.
    "chain": Kind(((("t0", "k"), ("t1", "k")), (("", "f"), ("t2", "k"))), ("t0", "t1", "t2")),
}


def made_row(table: str, key: int, draw: random.Random) -> dict[str, Any]:
    """The row of a table under a join key, as it is inserted; `draw` gives its random part."""
    pad = base64.b64encode(draw.randbytes(_PAD)).decode()
    return {"id": key, "k": key, "f": key, f"n{table[1]}": 0, f"pad{table[1]}": pad}


class JoinPlace:
    """Tables `t<i>` with columns id, k (a join key with one row in each), f (another), n<i> and 180 bytes more."""

    def __init__(self, name: str, kind: Kind, env: dict[str, str], folder: Path) -> None:
        self.name, self.kafka, self.folder = name, env["LYREBIRD_KAFKA"], folder
        self._tables = kind.tables
        self._writer = KafkaWriter(self.kafka, f"capture-{name}")
        self.admin = KafkaAdmin(self.kafka)
        tables = [
            TableSchema(
                "bench",
                each,
                (
                    Column("id", "bigint"),
                    Column("k", "bigint"),
                    Column("f", "bigint"),
                    Column(f"n{each[1]}", "bigint"),
                    Column(f"pad{each[1]}", "varchar"),
                ),
                ("id",),
            )
            for each in kind.tables
        ]
        registry = ConfluentRegistry(registry_url(env))
        self.captured = CapturedChanges(self._writer, self.admin, registry, tables, source=name, partitions=_PARTITIONS)
        self._rows: dict[tuple[str, int], dict[str, Any]] = {}
        self._hot: dict[str, int] = {}
        self._draw = random.Random(1)
        self._deploy(kind, env)

    def _deploy(self, kind: Kind, env: dict[str, str]) -> None:
        (self.folder / "joins").mkdir(parents=True)
        joins: dict[str, Any] = {}
        outputs: list[str] = []
        for number, inputs in enumerate(kind.joins):
            joined = f"joined{number}"
            declared = []
            for table, column in inputs:
                if not table:
                    fields = ["id0", "k", "f", "n0", "n1"]
                    declared.append({"topic": outputs[-1], "join_keys": [column], "include_fields": fields})
                    continue
                aliases = [{"from": "id", "to": f"id{table[1]}"}]
                # Only the first has the other join key.
                left_out = [] if table == "t0" else ["f"]
                if (number, table) == (1, "t2"):
                    aliases.append({"from": "k", "to": "k2"})
                topic = self.captured.topic(table)
                each: dict[str, Any] = {
                    "topic": topic,
                    "join_keys": [column],
                    "aliases": aliases,
                    "exclude_fields": left_out,
                }
                declared.append({key: value for key, value in each.items() if value})
            join = {
                "join": declared,
                "output": {"namespace": self.name, "source": joined},
                "max_product_per_change": kind.most,
            }
            (self.folder / "joins" / f"{joined}.yaml").write_text(yaml.safe_dump(join))
            joins[joined] = {"application": self.application, "file": f"joins/{joined}.yaml"}
            outputs.append(f"{self.name}.{joined}")
        self.outputs: tuple[str, ...] = tuple(outputs)
        values = {
            "joins": joins,
            "applications": {self.application: {"entry": "spark_apps/join.py", "topics": outputs}},
            "kafka": {"bootstrap": self.kafka},
            "registry": {"url": registry_url(env)},
            "store": {
                "endpoint": env["LYREBIRD_S3"],
                "bucket": self.name,
                "access_key": env["LYREBIRD_S3_ACCESS_KEY"],
                "secret_key": env["LYREBIRD_S3_SECRET_KEY"],
            },
        }
        (self.folder / "bench.yaml").write_text(yaml.safe_dump(values))
        store = store_of(Deployment.load(self.folder, {}).one("store", StoreSettings))
        store.ensure_bucket()
        store.close()

    @property
    def application(self) -> str:
        """Its name."""
        return f"join_{self.name}"

    def insert(self, keys: int) -> int:
        """A row of each table under each of so many more keys; how many rows."""
        more = range(self.keys, self.keys + keys)
        self._commit(("c", table, None, self._row(table, key)) for key in more for table in self._tables)
        return keys * len(self._tables)

    def heat(self, table: str, rows: int) -> None:
        """So many rows of a table under one join key that has no others."""
        self._hot[table] = 0
        self._commit(("c", table, None, self._hot_row(table, number)) for number in range(rows))

    def hotter(self) -> list[Transaction]:
        """A row of each of these tables changes; encoded, as `updates`."""
        made = []
        for table in self._hot:
            before = self._hot_row(table, 0)
            self._hot[table] += 1
            made.append(self.captured.encoded(("u", table, before, self._hot_row(table, 0))))
        return made

    def _hot_row(self, table: str, number: int) -> dict[str, Any]:
        changed = 0 if number else self._hot[table]
        row = {"id": _HOT + number, "k": _HOT, "f": _HOT, f"n{table[1]}": changed}
        return {**row, f"pad{table[1]}": "x" * _PAD}

    def update(self, count: int) -> None:
        """A change of one row under each of so many join keys."""
        self._commit(self._updates(self._draw.sample(range(self.keys), count)))

    def updates(self, count: int) -> Transaction:
        """As `update`, encoded, to be written before any that is encoded later."""
        return self.captured.encoded(*self._updates(self._draw.sample(range(self.keys), count)))

    @property
    def keys(self) -> int:
        """Join keys that have rows."""
        return len(self._rows) // len(self._tables)

    def live_bytes(self) -> float:
        """Of all living rows as their topics have them, by some of them."""
        some = self._draw.sample(list(self._rows.items()), min(len(self._rows), 5_000))
        return len(self._rows) * statistics.mean(self.captured.size_of(table, row) for (table, _), row in some)

    def _updates(self, keys: Sequence[int]) -> Iterator[Any]:
        for key in keys:
            table = self._draw.choice(self._tables)
            before = self._rows[table, key]
            after = {**before, f"n{table[1]}": before[f"n{table[1]}"] + 1}
            self._rows[table, key] = after
            yield "u", table, before, after

    def _row(self, table: str, key: int) -> dict[str, Any]:
        row = self._rows[table, key] = made_row(table, key, self._draw)
        return row

    def _commit(self, steps: Iterable[Any]) -> None:
        left = iter(steps)
        while some := list(itertools.islice(left, _AT_ONCE)):
            self.captured.commit(*some)

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is written meanwhile can be read only at the end, at once: an open transaction is before it."""
        writer = KafkaWriter(self.kafka, f"holds-{self.name}", transaction_timeout_s=_FILLED_WITHIN_S)
        writer.begin()
        for table in self._tables:
            for partition in range(_PARTITIONS):
                writer.append(self.captured.topic(table), b"held", b"", partition=partition)
        writer.append(topics.source_resolved(self.name), b"held", b"", partition=0)
        # Waits until the broker has them.
        writer.next_offsets()
        try:
            yield
        finally:
            writer.abort()
            writer.close()

    def joins(self) -> list[DeployedJoin]:
        """As declared."""
        return list(declared_joins(Deployment.load(self.folder, {})).values())

    def status(self) -> list[JoinStatus]:
        """Of each join."""
        reader = KafkaReader(self.kafka)
        try:
            return [join_status(each, reader, self.admin) for each in self.joins()]
        finally:
            reader.close()

    def await_all(self, process: ApplicationProcess, within_s: float) -> float:
        """Until every join has read all that there is; seconds that it took."""
        begun_s = time.monotonic()
        while True:
            found = self.status()
            if all(each.at and not each.behind for each in found):
                return time.monotonic() - begun_s
            if not process.alive or time.monotonic() - begun_s > within_s:
                raise SystemExit(f"the joins did not come to the end: {found}; {process.tail()}")
            time.sleep(0.1)

    def set_aside(self) -> int:
        """Records of the tables in dead-letter topics."""
        names = [topics.dead(self.captured.topic(table), self.application) for table in self._tables]
        reader = KafkaReader(self.kafka)
        try:
            there = [name for name in names if self.admin.describe(name) is not None]
            ends = [(name, p, end) for name in there for p, end in reader.end_offsets(name).items()]
            return sum(1 for name, p, end in ends for _ in reader.read(name, p, 0, end))
        finally:
            reader.close()

    def written(self) -> int:
        """Ends of the last joined topic, together."""
        reader = KafkaReader(self.kafka)
        try:
            return sum(reader.end_offsets(self.outputs[-1]).values())
        finally:
            reader.close()

    def close(self) -> None:
        """Give up clients."""
        self._writer.close()
