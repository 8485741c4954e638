"""Capture as a process on a real MariaDB and a real Kafka: killed, fenced, asked, given bad settings."""

from __future__ import annotations

import json
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from include.cli.main import EXIT_TRANSIENT
from include.log.kafka.writer import KafkaWriter
from include.log.requests.records import Request
from include.log.topics import change, source_requests
from tests.integration.source.queries import texts_leave_only_when_asked_for
from tests.support.source.capture_harness import CaptureHarness, opened
from tests.support.source.table_writers import TableWriters


@pytest.fixture
def world(unique: str, tmp_path: Path, mariadb: Any, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as made:
        yield made


def test_kills_while_rows_are_written_lose_and_double_nothing(world: CaptureHarness, kafka: str) -> None:
    chance = random.Random(5)
    with TableWriters(world):
        time.sleep(0.5)
        world.run("run", "--snapshot")
        for _ in range(3):
            capture = world.start("run")
            before = world.sequence()
            world.wait(lambda s=before: world.sequence() > s + 3)  # type: ignore[misc]
            time.sleep(chance.random())
            capture.kill()
            capture.communicate()
        capture = world.start("run")
        out, _ = world.run("request-snapshot", "--tables", "a", "--id", "r1", "--wait", "--timeout", "40", "--json")
        assert json.loads(out)["state"] == "done"
    world.is_whole()
    ends = world.resolved().ends()
    assert ends is not None
    newest = {(r.topic, r.partition): r.next_offset for r in world.records(change(world.name, world.name, "a"))}
    assert {place: end for place, end in ends.items() if place in newest} == newest
    assert json.loads(world.run("request-snapshot", "--id", "r1", "--wait", "--json")[0])["state"] == "done"
    # At once, with the nearest names: it never reaches the log.
    said = world.run("snapshot", "--tables", "aa", code=1)[1]
    assert "no captured tables of this name" in said
    assert f"Did you mean {world.name}.a?" in said
    assert "no tables set aside" in world.run("resume-table", "a", code=1)[1]
    assert world.status()["refused"] == []
    refused = Request("strange", "repair", "stranger", 0)
    writer = KafkaWriter(kafka, f"stranger.{world.name}")
    writer.begin()
    writer.append(source_requests(world.name), refused.key(), refused.value())
    writer.commit()
    writer.close()
    world.wait(lambda: bool(world.status()["refused"]))
    assert "kind repair" in world.status()["refused"][0]["note"]
    assert "refused    strange at " in world.run("status")[0]
    status = world.status()
    assert (status["snapshot"], status["uncovered"], status["requests"]) == ("done", [], [])
    capture.send_signal(signal.SIGTERM)
    assert capture.wait(30) == 0


def test_statements_leave_only_where_the_source_asks_for_them(world: CaptureHarness) -> None:
    texts_leave_only_when_asked_for(world, "SET binlog_annotate_row_events = ON")


def test_an_idle_source_says_every_second_that_it_is_complete(world: CaptureHarness) -> None:
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


def test_a_second_capture_fences_the_first(world: CaptureHarness) -> None:
    world.run("run", "--snapshot")
    first = world.start("run")
    world.wait(lambda: world.sequence() > 2)
    second = world.start("run")
    _, said = first.communicate(timeout=60)
    assert first.returncode == 3
    assert len([line for line in said.splitlines() if line.startswith("error: ")]) == 1
    assert second.poll() is None
    world.sql(f"INSERT INTO {world.name}.a VALUES (1, 1, 'x', 1, NULL)")
    world.wait_until_complete()
    assert set(world.copy("a")) == {1}


def test_tables_that_are_emptied_swapped_and_made_are_followed(world: CaptureHarness) -> None:
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


def test_a_first_snapshot_that_was_killed_goes_on_where_it_was(world: CaptureHarness) -> None:
    n = world.name
    world.declare(snapshot_chunk_rows=100, snapshot_rows_per_s=3000, snapshot_workers=2)
    values = ", ".join(f"({i}, {i % 5}, '{'x' * 30}', 1, NULL)" for i in range(1, 8001))
    world.sql(f"INSERT INTO {n}.a VALUES {values}")
    killed = world.start("run", "--snapshot")
    world.wait(lambda: world.rows_read() > 1000)
    killed.kill()
    killed.communicate()
    assert world.status()["snapshot"] == "running"
    read = world.rows_read()
    world.sql(f"DELETE FROM {n}.a WHERE id < 500 OR id > 7950", f"UPDATE {n}.a SET v = 'new' WHERE id > 7900")
    world.declare()
    world.run("run", "--snapshot")
    assert world.copy("a") == world.truth("a")
    # Of what stood in the log at the kill nothing was read again, but for chunks that were not whole there.
    assert world.rows_read() <= 8000 + 200
    assert read > 1000
    assert "done before" in world.run("run", "--snapshot")[0]
    world.sql(f"INSERT INTO {n}.b VALUES (1, 1, 'x')")
    world.run("run", "--snapshot", "--tables", "b")
    assert world.copy("b") == world.truth("b")
    world.sql(f"DELETE FROM {n}.a WHERE id < 1000")
    world.run("run", "--snapshot", "--anew")
    assert world.copy("a") == world.truth("a")


def test_bad_settings_end_with_one_line_and_the_next_step(world: CaptureHarness) -> None:
    def refused(*words: str, code: int = 1) -> str:
        said = world.run(*words, code=code)[1].strip().splitlines()
        (error,) = (line for line in said if not re.match(r"\S+ \S+ INFO ", line))
        assert error.startswith("error: ")
        return error

    assert "no snapshot to go on from" in refused("run")
    assert "allowed=" in refused("run", "--snapshot", "--tables", "nope")
    world.declare(password="wrong")
    assert "Check `user` and `password`" in refused("run")
    world.declare(port=1)
    assert "Is it up?" in refused("check", code=EXIT_TRANSIENT)
    world.declare(hots="x")
    assert "unknown key" in refused("check")
    world.declare()
    world.sql(
        f"CREATE TABLE {world.name}.c (id int PRIMARY KEY, b bigint unsigned GENERATED ALWAYS AS ROW START, "
        "e bigint unsigned GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (b, e)) WITH SYSTEM VERSIONING"
    )
    assert f"{world.name}.c is system-versioned by transactions" in refused("run")
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
