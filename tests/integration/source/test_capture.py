"""Capture as a process on a real MariaDB and a real Kafka: killed, fenced, asked, given bad settings."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from include.log.control import Control
from include.log.kafka import KafkaReader
from include.log.registry import ConfluentRegistry
from include.log.resolved import ResolvedView
from include.log.topics import change, control, source_answers, source_resolved
from include.record.codec import Decoder
from include.record.gtid import MariadbGtidSet
from include.record.version import from_headers

ROOT = Path(__file__).parents[3]
Rows = dict[Any, tuple[Any, ...]]


class World:
    """A database of its own, a source that captures it, and commands run on them."""

    def __init__(self, name: str, folder: Path, mariadb: Any, kafka: str, registry: str) -> None:
        self.name, self.folder, self.mariadb, self.kafka, self.registry = name, folder, mariadb, kafka, registry
        self.running: list[subprocess.Popen[str]] = []
        (folder / "deployment").mkdir()
        self.declare()
        self.root = mariadb.connect()
        self.sql(
            f"CREATE DATABASE {name} CHARACTER SET utf8mb4",
            f"USE {name}",
            "CREATE TABLE a (id int PRIMARY KEY, part int NOT NULL, v varchar(40), n decimal(12,2), at datetime(6))",
            "CREATE TABLE b (id bigint AUTO_INCREMENT PRIMARY KEY, a_id int NOT NULL, v text)",
        )

    def declare(self, **more: Any) -> None:
        source = {
            "host": self.mariadb.host,
            "port": self.mariadb.port,
            "user": "root",
            "password": self.mariadb.root_password,
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

    def sql(self, *statements: str) -> None:
        with self.root.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

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

    def run(self, *words: str, code: int = 0) -> tuple[str, str]:
        process = self.start(*words)
        out, said = process.communicate(timeout=90)
        assert process.returncode == code, said
        return out, said

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status", "--json")[0])
        return found

    def wait_until_complete(self, seconds: float = 40) -> None:
        """Until the log has all that the server has now, and no table is owed a snapshot."""
        with self.root.cursor() as cursor:
            cursor.execute("SELECT @@gtid_binlog_pos")
            server = MariadbGtidSet.parse(cursor.fetchone()[0])
        self.wait(lambda: self._is_complete(server), seconds)

    def _is_complete(self, server: MariadbGtidSet) -> bool:
        last = self.resolved().newest
        return last is not None and not last.uncovered and last.position.gtids.contains(server)  # type: ignore[arg-type]

    def resolved(self) -> ResolvedView:
        view = ResolvedView()
        for record in self.records(source_resolved(self.name)):
            view.on_record(record.value)
        return view

    def wait(self, done: Callable[[], bool], seconds: float = 40) -> None:
        until = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < until, "waited in vain"
            for process in self.running:
                assert process.poll() in (None, 0, 3, -signal.SIGKILL), process.communicate()
            time.sleep(0.2)

    def records(self, topic: str) -> list[Any]:
        reader = KafkaReader(self.kafka)
        try:
            return [
                record
                for partition, end in reader.end_offsets(topic).items()
                for record in reader.read(topic, partition, 0, end)
            ]
        finally:
            reader.close()

    def copy(self, table: str) -> Rows:
        """The table as a reader of the log sees it; fails when a (key, version) stands there twice."""
        floor = max(
            (
                found.floor
                for found in (Control.parse(r.value) for r in self.records(control(self.name)) if r.value)
                if found.table == table
            ),
            default=0,
        )
        decode = Decoder(ConfluentRegistry(self.registry).schema)
        newest: dict[bytes, tuple[int, Any]] = {}
        seen = set()
        for record in self.records(change(self.name, self.name, table)):
            version = from_headers(record.headers)
            assert (record.key, version, record.value is None) not in seen
            seen.add((record.key, version, record.value is None))
            if version >= newest.get(record.key, (-1, None))[0]:
                newest[record.key] = version, record.value
        found = [decode(value)["after"] for version, value in newest.values() if value and version >= floor]
        # A table with dates has a last field for those of no calendar; there is none here.
        assert all(row.pop("_invalid", None) is None for row in found)
        return {row["id"]: tuple(row.values()) for row in found}

    def truth(self, table: str) -> Rows:
        with self.root.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self.name}.{table}")
            return {row[0]: row for row in cursor.fetchall()}

    def versions(self) -> list[int]:
        topics = [change(self.name, self.name, t) for t in ("a", "b")]
        topics += [control(self.name), source_resolved(self.name), source_answers(self.name)]
        return sorted({from_headers(r.headers) for topic in topics for r in self.records(topic)})


class Writers:
    """Threads that insert, update, move and delete rows in transactions until told to stop."""

    def __init__(self, world: World, count: int = 2) -> None:
        self._world, self._stop = world, threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(seed,), daemon=True) for seed in range(count)]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, seed: int) -> None:
        chance = random.Random(seed)
        connection = self._world.mariadb.connect(database=self._world.name)
        connection.autocommit(False)
        with connection, connection.cursor() as cursor:
            while not self._stop.is_set():
                try:
                    for _ in range(chance.randint(1, 4)):
                        self._step(cursor, chance)
                    connection.commit()
                except pymysql.err.MySQLError:
                    connection.rollback()
                time.sleep(0.01)

    def _step(self, cursor: Any, chance: random.Random) -> None:
        id_, part = chance.randint(1, 60), chance.randint(1, 5)
        what = chance.random()
        if what < 0.4:
            cursor.execute(
                "REPLACE INTO a VALUES (%s, %s, %s, %s, NOW(6))", (id_, part, f"v{what}", round(what * 100, 2))
            )
            cursor.execute("INSERT INTO b (a_id, v) VALUES (%s, %s)", (id_, "ü" * chance.randint(0, 50)))
        elif what < 0.6:
            cursor.execute("UPDATE a SET v = %s, part = %s WHERE id = %s", (None, part, id_))
        elif what < 0.7:
            cursor.execute("UPDATE a SET id = id + 1000 WHERE id = %s", (id_,))
        elif what < 0.9:
            cursor.execute("DELETE FROM a WHERE id IN (%s, %s)", (id_, id_ + 1000))
        else:
            cursor.execute("SAVEPOINT s")
            cursor.execute("DELETE FROM b WHERE a_id = %s", (id_,))
            cursor.execute("ROLLBACK TO s" if what < 0.95 else "RELEASE SAVEPOINT s")


@pytest.fixture
def world(unique: str, tmp_path: Path, mariadb: Any, kafka: str, registry_url: str) -> Iterator[World]:
    made = World(unique, tmp_path, mariadb, kafka, registry_url)
    yield made
    for process in made.running:
        if process.poll() is None:
            process.kill()
        process.communicate()
    made.sql(f"DROP DATABASE IF EXISTS {unique}")
    made.root.close()


def test_kills_while_rows_are_written_lose_and_double_nothing(world: World) -> None:
    chance = random.Random(5)
    with Writers(world):
        time.sleep(0.5)
        world.run("run", "--snapshot")
        for _ in range(3):
            capture = world.start("run")
            before = world.resolved().newest
            assert before is not None
            sequence = before.sequence
            world.wait(lambda s=sequence: world.resolved().newest.sequence > s + 3)  # type: ignore[misc,union-attr]
            time.sleep(chance.random())
            capture.kill()
            capture.communicate()
        capture = world.start("run")
        out, _ = world.run("request-snapshot", "--tables", "a", "--id", "r1", "--wait", "--timeout", "40", "--json")
        assert json.loads(out)["state"] == "done"
    world.wait_until_complete()
    assert world.copy("a") == world.truth("a")
    assert world.copy("b") == world.truth("b")
    versions = world.versions()
    assert versions == list(range(1, versions[-1] + 1))
    ends = world.resolved().ends()
    assert ends is not None
    newest = {(r.topic, r.partition): r.next_offset for r in world.records(change(world.name, world.name, "a"))}
    assert {place: end for place, end in ends.items() if place in newest} == newest
    assert json.loads(world.run("request-snapshot", "--id", "r1", "--wait", "--json")[0])["state"] == "done"
    assert "no captured tables" in world.run("request-snapshot", "--tables", "nope", "--wait", code=1)[1]
    status = world.status()
    assert (status["snapshot"], status["uncovered"], status["requests"]) == ("done", [], [])
    capture.send_signal(signal.SIGTERM)
    assert capture.wait(30) == 0


def test_an_idle_source_says_every_second_that_it_is_complete(world: World) -> None:
    world.run("run", "--snapshot")
    world.start("run")
    first = world.resolved().newest
    assert first is not None
    world.wait(lambda: (world.resolved().newest or first).sequence >= first.sequence + 4)
    last = world.resolved().newest
    assert last is not None
    assert last.position.commit_us > first.position.commit_us
    (world.folder / "state" / "run" / f"by-hand-capture-{world.name}" / "stop").touch()
    assert world.running[-1].wait(30) == 0


def test_a_second_capture_fences_the_first(world: World) -> None:
    world.run("run", "--snapshot")
    first = world.start("run")
    world.wait(lambda: (world.resolved().newest or pytest.fail("no resolved record")).sequence > 2)
    second = world.start("run")
    _, said = first.communicate(timeout=60)
    assert first.returncode == 3
    assert len([line for line in said.splitlines() if line.startswith("error: ")]) == 1
    assert second.poll() is None
    world.sql(f"INSERT INTO {world.name}.a VALUES (1, 1, 'x', 1, NULL)")
    world.wait_until_complete()
    assert set(world.copy("a")) == {1}


def test_tables_that_are_emptied_swapped_and_made_are_followed(world: World) -> None:
    n = world.name
    world.sql(
        f"INSERT INTO {n}.a VALUES (1, 1, 'x', 1, NULL), (2, 1, 'y', 1, NULL)", f"INSERT INTO {n}.b VALUES (1, 1, 'z')"
    )
    world.run("run", "--snapshot")
    world.start("run")
    world.sql(
        f"TRUNCATE {n}.b",
        f"INSERT INTO {n}.b VALUES (5, 5, 'after')",
        f"CREATE TABLE {n}.fresh (id int PRIMARY KEY, w double)",
        f"INSERT INTO {n}.fresh VALUES (1, 0.1)",
        f"ALTER TABLE {n}.fresh ADD more int NOT NULL DEFAULT 7",
        f"INSERT INTO {n}.fresh VALUES (2, 0.2, 8)",
    )
    world.wait_until_complete()
    assert world.copy("b") == world.truth("b")
    assert {key: row[:2] for key, row in world.copy("fresh").items()} == {1: (1, 0.1), 2: (2, 0.2)}
    world.sql(
        f"CREATE TABLE {n}._a_new LIKE {n}.a",
        f"INSERT INTO {n}._a_new VALUES (2, 9, 'swapped', 2, NULL)",
        f"RENAME TABLE {n}.a TO {n}._a_old, {n}._a_new TO {n}.a",
        f"DROP TABLE {n}._a_old",
    )
    world.wait_until_complete()
    assert world.copy("a") == world.truth("a")


def test_a_first_snapshot_that_was_killed_begins_anew_without_ghosts(world: World) -> None:
    world.declare(group_bytes=2_000)
    values = ", ".join(f"({i}, {i % 5}, '{'x' * 30}', 1, NULL)" for i in range(1, 8000))
    world.sql(f"INSERT INTO {world.name}.a VALUES {values}")
    killed = world.start("run", "--snapshot")
    world.wait(lambda: _has_records(world))
    killed.kill()
    killed.communicate()
    assert world.status()["snapshot"] == "running"
    assert "no finished snapshot" in world.run("run", code=1)[1]
    world.sql(f"DELETE FROM {world.name}.a WHERE id < 500", f"UPDATE {world.name}.a SET v = 'new' WHERE id > 7900")
    world.declare()
    world.run("run", "--snapshot")
    assert world.copy("a") == world.truth("a")
    assert "done before" in world.run("run", "--snapshot")[0]
    world.sql(f"INSERT INTO {world.name}.b VALUES (1, 1, 'x')")
    world.run("run", "--snapshot", "--tables", "b")
    assert world.copy("b") == world.truth("b")


def test_bad_settings_end_with_one_line_and_the_next_step(world: World) -> None:
    def refused(*words: str) -> str:
        said = world.run(*words, code=1)[1].strip().splitlines()
        assert len(said) == 1
        assert said[0].startswith("error: ")
        return said[0]

    assert "no finished snapshot" in refused("run")
    assert "allowed=" in refused("run", "--snapshot", "--tables", "nope")
    world.declare(password="wrong")
    assert "Check `user` and `password`" in refused("run")
    world.declare(port=1)
    assert "Is it up?" in refused("check")
    world.declare(hots="x")
    assert "unknown key" in refused("check")
    world.declare()
    world.sql(f"CREATE TABLE {world.name}.c (id int PRIMARY KEY) WITH SYSTEM VERSIONING")
    assert f"{world.name}.c is system-versioned" in refused("run")
    out, _ = world.run("check", "--json", code=1)
    assert [found["place"] for found in json.loads(out)["findings"]] == [f"{world.name}.c"]
    world.sql(
        f"DROP TABLE {world.name}.c",
        f"CREATE TABLE {world.name}.c (id int PRIMARY KEY, a_id int, CONSTRAINT k FOREIGN KEY (a_id) REFERENCES "
        f"{world.name}.a (id) ON DELETE CASCADE)",
        f"CREATE TABLE {world.name}.m (id int PRIMARY KEY) ENGINE=MyISAM",
    )
    out, _ = world.run("check", "--json", code=0)
    found = [(each["place"], each["level"]) for each in json.loads(out)["findings"]]
    assert sorted(found) == [(f"{world.name}.c", "warn"), (f"{world.name}.m", "warn")]


def _has_records(world: World) -> bool:
    last = world.resolved().newest if _exists(world, source_resolved(world.name)) else None
    return last is not None and last.sequence > 20


def _exists(world: World, topic: str) -> bool:
    from include.log.kafka import KafkaAdmin

    return topic in KafkaAdmin(world.kafka).names()
