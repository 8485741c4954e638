"""`make bench-tables`: what it costs to keep a change topic as a table of the lake.

1. 10,000 changed rows, anywhere in a table of a million keys, two cores: seconds from their commit in the log until
   the version with them is there; beside delta-rs' merge of the same rows, read and decoded before, into such a table.
   Rounds are interleaved.
2. Ten million keys, 5,000 changes a second, the application on one core: how far its label is behind, how many bytes
   are written for each byte that changed. Kafka, object store and the writer of changes have the other cores.

Figures are medians; ends with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import yaml

from include.clock import SystemClock
from include.errors import Transient
from include.lake.tables.delta_log import DeltaLog, TableState, storage_options
from include.lake.tables.generation import generation_folder
from include.log.kafka.log import KafkaAdmin, KafkaWriter
from include.log.registry.confluent import ConfluentRegistry
from include.record.change import Change, SourceBlock
from include.record.codec import Encoder
from include.record.key import partition_of
from include.record.schema import Column, TableSchema
from include.record.version import to_header
from include.settings.connections import StoreSettings
from include.settings.deployment import Deployment
from include.store.s3 import S3Store
from tests.bench.servers import halves, on_cores, served
from tests.support.application_process import ApplicationProcess
from tests.support.servers.addresses import registry_url
from tests.support.source.captured_changes import CapturedChanges

__all__ = ["main"]

_NAME: Final = "bench"
_APPLICATION: Final = "lake_tables"
_PARTITIONS: Final = 4
_BUCKETS: Final = 16
_AT_ONCE: Final = 100_000
_SHAPES: Final = 1_000
_BATCH_BOUND_S: Final = 1.5
_LABEL_BOUND_S: Final = 60.0
_MARK: Final = 77_777_777
"""An id whose bytes nothing else in an envelope has."""
_OURS: Final = "lyrebird"
_MERGE: Final = "delta-rs merge"
_COLUMNS: Final = (
    Column("id", "bigint"),
    Column("user", "int"),
    Column("state", "varchar", charset="utf8mb4"),
    Column("price", "decimal", precision=12, scale=2),
    Column("made", "datetime", digits=6),
    Column("day", "date"),
    Column("flag", "tinyint"),
    Column("name", "varchar", charset="utf8mb4"),
    Column("note", "varchar", charset="utf8mb4"),
)


class Changes:
    """Writes a change topic as capture does, fast: envelopes are put together of bytes that were encoded once."""

    def __init__(self, kafka: str, registry_url: str) -> None:
        registry = ConfluentRegistry(registry_url)
        self._schema = TableSchema(_NAME, "wide", _COLUMNS, ("id",))
        self._writer = KafkaWriter(kafka, f"capture-{_NAME}")
        self._captured = CapturedChanges(
            self._writer, KafkaAdmin(kafka), registry, [self._schema], source=_NAME, partitions=_PARTITIONS
        )
        self.topic = self._captured.topic("wide")
        self.at: list[tuple[int, float]] = []
        """Version of each transaction's resolved record, and when it was committed."""
        self.bytes = 0
        self._shapes = [self._shape(number) for number in range(_SHAPES)]
        self._key = self._encoder("key")({"id": 1})[:5]

    def write(self, ids: Iterator[int] | range, shape: int) -> None:
        """Rows of these ids, in transactions of so many at most; `shape`: what they hold."""
        ids = iter(ids)
        while some := [each for _, each in zip(range(_AT_ONCE), ids, strict=False)]:
            self._writer.begin()
            for id_ in some:
                self._captured.version += 1
                number = _long(id_)
                head, rest = self._shapes[(id_ + shape) % _SHAPES]
                key = self._key + number
                value = head + number + rest
                self.bytes += len(value)
                at = partition_of(key, _PARTITIONS)
                self._writer.append(self.topic, key, value, headers=(to_header(self._captured.version),), partition=at)
            self._captured.transactions += 1
            self._captured.version += 1
            version = self._captured._end(self._captured.transactions, self._captured.version)
            self.at.append((version, time.monotonic()))

    def close(self) -> None:
        self._writer.close()

    def _encoder(self, part: str) -> Encoder:
        return self._captured._encoders["wide", part]

    def _shape(self, number: int) -> tuple[bytes, bytes]:
        """Bytes before and behind the id of an envelope."""
        row = {
            "id": _MARK,
            "user": number * 7,
            "state": ("new", "paid", "sent")[number % 3],
            "price": f"{number / 7:.2f}",
            "made": 1_767_225_600_000_000 + number * 86_399_123_457,
            "day": 20_000 + number,
            "flag": number % 2,
            "name": f"name of row {number * 7919}",
            "note": f"a note that nobody reads {number * 104_729}",
        }
        whole = self._envelope(row)
        head, rest = whole.split(_long(_MARK))
        return head, rest

    def _envelope(self, row: dict[str, Any]) -> bytes:
        kept = {**row, "price": Decimal(row["price"])}
        block = SourceBlock("1", _NAME, _NAME, "wide", 1, "bin.000001", 1, 0, 1_000_000)
        change = Change(op="u", before=None, after=kept, source=block, ts_us=1_000_000)
        return self._encoder("value")(change.envelope())


def _long(value: int) -> bytes:
    """Avro's form of a whole number that is not negative."""
    value, out = value << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class Place:
    """A deployment with one table, its application, and what it has written."""

    def __init__(self, env: dict[str, str], folder: Path, every_s: float) -> None:
        self.folder = folder
        store = {
            "endpoint": env["LYREBIRD_S3"],
            "bucket": _NAME,
            "access_key": env["LYREBIRD_S3_ACCESS_KEY"],
            "secret_key": env["LYREBIRD_S3_SECRET_KEY"],
        }
        S3Store(store["endpoint"], _NAME, store["access_key"], store["secret_key"]).ensure_bucket()
        self.changes = Changes(env["LYREBIRD_KAFKA"], registry_url(env))
        table = {
            "application": _APPLICATION,
            "topics": [self.changes.topic],
            "prefix": "tables",
            "buckets": _BUCKETS,
            "every_s": every_s,
        }
        values = {
            "kafka": {"bootstrap": env["LYREBIRD_KAFKA"]},
            "registry": {"url": registry_url(env)},
            "store": store,
            "applications": {_APPLICATION: {"entry": "spark_apps/lake_tables.py"}},
            "tables": {"wide": table},
        }
        (folder / "all.yaml").write_text(yaml.safe_dump(values))
        self.options = storage_options(Deployment.load(folder).one("store", StoreSettings))
        self.uri = f"s3://{_NAME}/{generation_folder('tables', self.changes.topic, 1)}"
        self.log = DeltaLog(self.uri, self.options, SystemClock())
        self._seen = -1
        self.label = -1
        self.written = 0

    def start(self, master: str) -> None:
        """The application, on as many cores as its master says."""
        self.process = ApplicationProcess(
            _APPLICATION, self.folder, {"LYREBIRD_SPARK_MASTER": master}, script="spark_apps/lake_tables.py"
        )

    def look(self) -> TableState | None:
        """Follow the log: what was written, and the newest version of a change that a label speaks for."""
        try:
            state = self.log.state((_NAME,))
        except Transient:
            return None
        if state is None:
            return None
        for version, _, label in self.log.labels(state.version - self._seen):
            if _NAME in label:
                self.label = max(self.label, label[_NAME].version)
            self.written += _added(self.log, version)
        self._seen = state.version
        return state

    def until(self, version: int, within_s: float) -> None:
        """Until a label speaks for that change."""
        until_s = time.monotonic() + within_s
        while self.label < version:
            self.look()
            if time.monotonic() > until_s or not self.process.alive:
                raise SystemExit(f"the table did not come to {version}: {self.process.tail()}")
            time.sleep(0.02)


def _added(log: DeltaLog, version: int) -> int:
    """Bytes of the files that a version added."""
    lines = log._files().open_input_file(f"_delta_log/{version:020d}.json").read().splitlines()
    return sum(said["add"]["size"] for said in map(json.loads, lines) if "add" in said)


def main() -> int:
    """Run, tell; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--changed", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--many", type=int, default=10_000_000, help="keys of the second part; 0: leave it out")
    parser.add_argument("--a-second", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    told: dict[str, Any] = {"batch": _batches(arguments)}
    if arguments.many:
        told["follow"] = _following(arguments)
    return _tell(told, arguments)


@contextmanager
def _placed(every_s: float, cores: frozenset[int]) -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as name, served(["kafka", "registry", "s3"], Path(name) / "stack", cores) as env:
        (Path(name) / "world").mkdir()
        place = Place(env, Path(name) / "world", every_s)
        try:
            yield place
        finally:
            if hasattr(place, "process"):
                place.process.kill()
            place.changes.close()


def _batches(arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Rounds of some changed rows, by us and by delta-rs."""
    draw, found = random.Random(1), dict[str, list[float]]()
    with _placed(0.5, halves(apart=False)[0]) as place:
        changes = place.changes
        changes.write(range(1, arguments.keys + 1), 0)
        place.start("local[2]")
        place.until(changes.at[-1][0], 900)
        _copied(place)
        for number in range(arguments.rounds):
            ids = draw.sample(range(1, arguments.keys + 1), arguments.changed)
            changes.write(iter(ids), number + 1)
            version, at = changes.at[-1]
            place.until(version, 120)
            found.setdefault(_OURS, []).append(time.monotonic() - at)
            # It is not to be measured beside what the application does behind its commit.
            time.sleep(1)
            found.setdefault(_MERGE, []).append(_merged(place, ids))
            said = {name: round(each[-1], 2) for name, each in found.items()}
            print(f"round {number + 1} of {arguments.rounds}: {said} s", file=sys.stderr)
    return found


def _copied(place: Place) -> None:
    """The same rows as a table that delta-rs writes by itself."""
    from deltalake import DeltaTable, write_deltalake

    rows = DeltaTable(place.uri, storage_options=place.options)
    write_deltalake(
        f"{place.uri}-merged",
        rows.to_pyarrow_table(),
        partition_by=["_bucket"],
        storage_options=place.options,
    )


def _merged(place: Place, ids: list[int]) -> float:
    """Seconds of a merge of the rows that the table has for these ids now, which are newer than those of the copy."""
    import pyarrow.compute as pc
    import pyarrow.lib as pa
    from deltalake import DeltaTable

    rows = DeltaTable(place.uri, storage_options=place.options).to_pyarrow_table()
    compute: Any = pc
    changed = rows.filter(compute.is_in(rows["id"], value_set=pa.array(ids, rows["id"].type)))
    begun_s = time.monotonic()
    other = DeltaTable(f"{place.uri}-merged", storage_options=place.options)
    buckets = ", ".join(map(str, range(_BUCKETS)))
    merge = other.merge(
        changed,
        f"t._bucket in ({buckets}) and t._bucket = s._bucket and t._key = s._key",
        source_alias="s",
        target_alias="t",
    )
    merge.when_matched_update_all("s._version > t._version").when_not_matched_insert_all().execute()
    return time.monotonic() - begun_s


def _following(arguments: argparse.Namespace) -> dict[str, float]:
    """A table of many keys under changes, kept by one core."""
    own, rest = halves(apart=True)
    draw = random.Random(2)
    with _placed(10, rest) as place:
        changes = place.changes
        print(f"{arguments.many:,} keys", file=sys.stderr)
        changes.write(range(1, arguments.many + 1), 0)
        begun_s = time.monotonic()
        with on_cores(own):
            place.start("local[1]")
        place.until(changes.at[-1][0], 3_000)
        filled_s = time.monotonic() - begun_s
        print(f"the table is there after {filled_s:,.0f} s", file=sys.stderr)
        before, written, changed = place.label, place.written, changes.bytes
        delays, begun_s, said = list[float](), time.monotonic(), 0.0
        while (now_s := time.monotonic() - begun_s) < arguments.seconds:
            due = int((now_s + 1) * arguments.a_second) - int(now_s * arguments.a_second)
            changes.write((draw.randrange(1, arguments.many + 1) for _ in range(due)), draw.randrange(_SHAPES))
            place.look()
            waiting = next((at for version, at in changes.at if version > max(place.label, before)), time.monotonic())
            delays.append(time.monotonic() - waiting)
            if now_s - said > 20:
                said = now_s
                print(f"{now_s:,.0f} s: the label is {delays[-1]:.1f} s behind", file=sys.stderr)
            time.sleep(max(0.0, begun_s + len(delays) - time.monotonic()))
        place.until(changes.at[-1][0], 600)
        return {
            "filled_s": filled_s,
            "behind_most_s": max(delays),
            "behind_median_s": statistics.median(delays),
            "written_a_changed_byte": (place.written - written) / (changes.bytes - changed),
        }


def _tell(told: dict[str, Any], arguments: argparse.Namespace) -> int:
    batch = {name: statistics.median(all_) for name, all_ in told["batch"].items()}
    missed = [] if batch[_OURS] <= _BATCH_BOUND_S else [f"{batch[_OURS]:.2f} s, wanted {_BATCH_BOUND_S}"]
    follow = told.get("follow")
    if follow and follow["behind_most_s"] > _LABEL_BOUND_S:
        missed.append(f"the label was {follow['behind_most_s']:.0f} s behind, wanted {_LABEL_BOUND_S:.0f}")
    if arguments.json:
        print(json.dumps({**told, "missed": missed}))
        return 1 if missed else 0
    print(f"{arguments.changed:,} changed rows of {arguments.keys:,}, {arguments.rounds} rounds, medians\n")
    for name, seconds in batch.items():
        print(f"{name:20} {seconds:6.2f} s")
    if follow:
        print(f"\n{arguments.many:,} keys, {arguments.a_second:,} changes a second, one core")
        print(f"the label is behind: median {follow['behind_median_s']:.1f} s, at most {follow['behind_most_s']:.1f} s")
        print(f"bytes written for each changed byte: {follow['written_a_changed_byte']:.0f}")
        print(f"the table was filled in {follow['filled_s']:,.0f} s")
    for each in missed:
        print(f"MISSED: {each}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
