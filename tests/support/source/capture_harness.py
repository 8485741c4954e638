"""A database of its own on a real server, a source that captures it into a real Kafka, and capture as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import lt
from pathlib import Path
from typing import Any

from include.log.control import ControlRecord
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.registry.confluent import ConfluentRegistry
from include.log.resolved import ResolvedView
from include.log.topics import change, control, source_answers, source_resolved
from include.record.codec import Decoder
from include.record.gtid import parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.record.version import from_headers
from include.source.database.server import read_server
from tests.support.paths import ROOT
from tests.support.source.database import Database
from tests.support.source.logged_changes import changed, is_logged

__all__ = ["CaptureHarness", "Database", "Rows", "opened"]

Rows = dict[Any, tuple[Any, ...]]
# REFERENCES and TRIGGER show foreign keys and triggers to an account that may only read.
_NEWER_GRANTS = "REPLICATION SLAVE, BINLOG MONITOR, SELECT, REFERENCES, TRIGGER"
_OLDER_GRANTS = "REPLICATION SLAVE, REPLICATION CLIENT, SELECT, REFERENCES, TRIGGER"


class CaptureHarness:
    """A database of its own, a source that captures it with an account of its own, and commands run on them."""

    def __init__(self, name: str, folder: Path, server: Database, kafka: str, registry: str) -> None:
        self.name, self.folder, self.server, self.kafka, self.registry = name, folder, server, kafka, registry
        self.running: list[subprocess.Popen[str]] = []
        self.moved = False
        # Captured tables beside a and b.
        self.more: list[str] = []
        (folder / "deployment").mkdir()
        self.root = server.connect()
        self.about = read_server(self.ask)
        self.password = "Secret-" + name
        self.declare()
        newer = self.about.flavour == "mariadb" and self.about.version >= (10, 5, 2)
        self.sql(
            f"CREATE DATABASE {name} CHARACTER SET utf8mb4",
            f"USE {name}",
            "CREATE TABLE a (id int PRIMARY KEY, part int NOT NULL, v varchar(40), n decimal(12,2), at datetime(6))",
            "CREATE TABLE b (id bigint AUTO_INCREMENT PRIMARY KEY, a_id int NOT NULL, v text)",
            f"CREATE USER {name}@'%' IDENTIFIED BY '{self.password}'",
            f"GRANT {_NEWER_GRANTS if newer else _OLDER_GRANTS} ON *.* TO {name}@'%'",
        )
        if self.about.flavour == "mysql" and self.about.version >= (8, 0, 0):
            self.sql(f"GRANT XA_RECOVER_ADMIN ON *.* TO {name}@'%'")
        if not self.about.gtids:
            self.sql(f"GRANT PROCESS ON *.* TO {name}@'%'")

    def declare(self, **more: Any) -> None:
        """Write the deployment: what was declared last, with `more`."""
        source = {
            "host": self.server.host,
            "port": self.server.port,
            "user": self.name,
            "password": self.password,
            "databases": [self.name],
            "partition_by": {"a": ["part"]},
            "partitions": 1,
            "table_partitions": {"a": 3},
            "group_ms": 20,
        } | more
        (self.folder / "deployment" / "d.yaml").write_text(
            json.dumps(
                {
                    "sources": {self.name: source},
                    "kafka": {"bootstrap": self.kafka},
                    "registry": {"url": self.registry},
                }
            ),
            "utf-8",
        )

    def move(self, server: Database) -> None:
        """Ask, write and compare on that server from now on; the declaration stays."""
        self.server = server
        self.moved = True
        self.root = server.connect()

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.root.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.ask(statement)

    def start(self, *words: str) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LYREBIRD_")}
        environment |= {
            "LYREBIRD_DEPLOYMENT": str(self.folder / "deployment"),
            "LYREBIRD_STATE": str(self.folder / "state"),
            "PYTHONPATH": str(ROOT),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "include", "capture", words[0], "--source", self.name, *words[1:]],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def run(self, *words: str, code: int = 0, limit_s: float = 90) -> tuple[str, str]:
        process = self.start(*words)
        out, said = process.communicate(timeout=limit_s)
        self.running.remove(process)
        assert process.returncode == code, said
        return out, said

    def stop(self, process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status", "--json")[0])
        return found

    def end(self) -> SourcePosition:
        """Where the server's binlog ends."""
        ((file, pos, *_),) = self.ask(self.about.binlog_status)
        variable = "gtid_binlog_pos" if self.about.flavour == "mariadb" else "gtid_executed"
        text = self.ask(f"SELECT @@global.{variable}")[0][0] if self.about.gtids else ""
        return SourcePosition(
            self.about.flavour, parse_gtid_set(text, self.about.flavour), BinlogPosition(file, int(pos)), 0
        )

    def wait_until_complete(self, seconds: float = 40) -> None:
        """Until the log has all that the server has now, and no table is owed a snapshot."""
        end = self.end()
        self.wait(lambda: self._is_complete(end), seconds)

    def _is_complete(self, end: SourcePosition) -> bool:
        last = self.resolved().newest
        return last is not None and not last.uncovered and last.position.covers(end)

    def resolved(self) -> ResolvedView:
        view = ResolvedView()
        for record in self.records(source_resolved(self.name)):
            view.on_record(record.value)
        return view

    def sequence(self) -> int:
        """Of the last resolved record; 0 without any."""
        if source_resolved(self.name) not in KafkaAdmin(self.kafka).names():
            return 0
        last = self.resolved().newest
        return last.sequence if last else 0

    def wait(self, done: Callable[[], bool], seconds: float = 40) -> None:
        until = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < until, "waited in vain"
            for process in self.running:
                assert process.poll() in (None, 0, 3, -signal.SIGKILL), process.communicate()
            time.sleep(0.2)

    def records(self, topic: str) -> list[Any]:
        """All that is committed; fails when the reader gives an offset twice, which is no fault of the log's."""
        reader, found = KafkaReader(self.kafka), []
        try:
            for partition, end in reader.end_offsets(topic).items():
                of = list(reader.read(topic, partition, 0, end))
                offsets = [record.offset for record in of]
                assert all(map(lt, offsets, offsets[1:])), ("offsets do not ascend", topic, partition)
                found += of
        finally:
            reader.close()
        return found

    def copy(self, table: str) -> Rows:
        """The table as a reader of the log sees it; fails when a (key, version) stands there twice."""
        floor = max(
            (
                found.floor
                for found in (ControlRecord.parse(r.value) for r in self.records(control(self.name)) if r.value)
                if found.table == table
            ),
            default=0,
        )
        decode = Decoder(ConfluentRegistry(self.registry).schema)
        newest: dict[bytes, tuple[int, Any]] = {}
        seen: dict[tuple[bytes, int, bool], str] = {}
        for record in self.records(change(self.name, self.name, table)):
            version = from_headers(record.headers)
            place = f"{record.partition}/{record.offset}"
            other = seen.setdefault((record.key, version, record.value is None), place)
            assert other == place, (table, version, other, place)
            if version >= newest.get(record.key, (-1, None))[0]:
                newest[record.key] = version, record.value
        found = [decode(value)["after"] for version, value in newest.values() if value and version >= floor]
        # A table with dates has a last field for those of no calendar; there is none here.
        assert all(row.pop("_invalid", None) is None for row in found)
        return {row["id"]: tuple(row.values()) for row in found}

    def rows_read(self, table: str = "a") -> int:
        """Records of that table that a snapshot made."""
        topic = change(self.name, self.name, table)
        if topic not in KafkaAdmin(self.kafka).names():
            return 0
        decode = Decoder(ConfluentRegistry(self.registry).schema)
        return sum(decode(record.value)["op"] == "r" for record in self.records(topic) if record.value)

    def truth(self, table: str) -> Rows:
        return {row[0]: row for row in self.ask(f"SELECT * FROM {self.name}.{table}")}

    def versions(self) -> list[int]:
        """All that the log has, sorted; fails where they do not ascend with a partition's offsets."""
        topics = [change(self.name, self.name, t) for t in ("a", "b", *self.more)]
        topics += [control(self.name), source_resolved(self.name), source_answers(self.name)]
        partitions: dict[tuple[str, int], list[int]] = defaultdict(list)
        for record in (record for topic in topics for record in self.records(topic)):
            partitions[record.topic, record.partition].append(from_headers(record.headers))
        for place, found in partitions.items():
            # A delete and its tombstone have one version.
            assert found == sorted(found), place
        return sorted({version for found in partitions.values() for version in found})

    def changes(self) -> dict[str, list[int]]:
        """Source transaction → numbers of its rows in the log, sorted; fails when one stands there twice."""
        decode = Decoder(ConfluentRegistry(self.registry).schema)
        seen = set()
        for table in ("a", "b"):
            for record in self.records(change(self.name, self.name, table)):
                if record.value is None:
                    continue
                envelope = decode(record.value)
                if envelope["op"] == "r":
                    continue
                # An update that moves its row is a delete and an insert of one number.
                place = envelope["source"]["gtid"], envelope["source"]["row"], envelope["op"]
                assert place not in seen
                seen.add(place)
        found = defaultdict(set)
        for gtid, row, _ in seen:
            found[gtid].add(row)
        return {gtid: sorted(rows) for gtid, rows in found.items()}

    def is_whole(self, *, unread: bool = False) -> None:
        """The log is the truth: rows equal, each change once, no transaction in part, versions without holes.

        Its transactions are those of the server's own binlog, each with as many rows; unless some were left `unread`.
        """
        self.wait_until_complete()
        for table in ("a", "b"):
            assert self.copy(table) == self.truth(table)
        changes = self.changes()
        for gtid, rows in changes.items():
            assert rows == list(range(len(rows))), gtid
        versions = self.versions()
        assert versions == list(range(1, versions[-1] + 1))
        if not unread:
            first = ResolvedView()
            first.on_record(self.records(source_resolved(self.name))[0].value)
            assert first.newest is not None
            begin = first.newest.position
            # Another server's files have other transactions under these names.
            logged = changed(self.server.connect(), self.name, ("a", "b"), "" if self.moved else begin.binlog.file)
            is_logged({gtid: len(rows) for gtid, rows in changes.items()}, logged, begin)


@contextmanager
def opened(name: str, folder: Path, server: Database, kafka: str, registry: str) -> Iterator[CaptureHarness]:
    """A world for the length of a `with`; what still runs at its end is killed."""
    made = CaptureHarness(name, folder, server, kafka, registry)
    try:
        yield made
    finally:
        for process in made.running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        with made.server.connect() as root, root.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute(f"DROP USER {name}@'%'")
        made.root.close()
