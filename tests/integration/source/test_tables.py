"""Tables that are not plain ones, from a real server into Kafka: keys that change, rows with a past."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from include.log.kafka.log import KafkaAdmin
from include.log.registry.confluent import ConfluentRegistry
from include.log.topics import change
from include.record.codec import Decoder
from tests.support.source.capture_harness import CaptureHarness, opened


@pytest.fixture
def world(unique: str, tmp_path: Path, mariadb: Any, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as made:
        yield made


def _topic_id(world: CaptureHarness, table: str) -> str:
    found = KafkaAdmin(world.kafka).describe(change(world.name, world.name, table))
    assert found is not None
    return found.topic_id


def _aside(world: CaptureHarness) -> list[str]:
    return [each["table"] for each in world.status()["aside"]]


def test_a_table_whose_key_is_altered_goes_into_a_topic_made_anew_when_asked_for(world: CaptureHarness) -> None:
    n = world.name
    world.sql(f"INSERT INTO {n}.b VALUES (1, 1, 'x'), (2, 1, 'y')")
    world.run("run", "--snapshot")
    before = _topic_id(world, "b")
    capture = world.start("run")
    world.sql(
        f"INSERT INTO {n}.b VALUES (3, 1, 'z')",
        f"ALTER TABLE {n}.b MODIFY id bigint, DROP PRIMARY KEY, ADD PRIMARY KEY (id, a_id)",
        f"INSERT INTO {n}.b VALUES (4, 1, 'after')",
    )
    world.wait(lambda: _aside(world) == [f"{n}.b"])
    (why,) = world.status()["aside"]
    assert "key columns" in why["cause"]
    assert "resume-table" in why["cause"]
    assert _topic_id(world, "b") == before
    # Rows go on to come while it is read.
    world.sql(f"INSERT INTO {n}.a VALUES (1, 1, 'x', 1, NULL)", f"DELETE FROM {n}.b WHERE id = 2")
    out, _ = world.run("resume-table", f"{n}.b", "--wait", "--timeout", "60", "--json")
    assert json.loads(out)["state"] == "done"
    world.sql(f"UPDATE {n}.b SET a_id = 7 WHERE id = 1", f"INSERT INTO {n}.b VALUES (5, 1, 'new')")
    world.wait_until_complete()
    assert _topic_id(world, "b") != before
    assert world.copy("b") == world.truth("b")
    assert world.copy("a") == world.truth("a")
    keys = {record.key for record in world.records(change(n, n, "b"))}
    decode = Decoder(ConfluentRegistry(world.registry).schema)
    assert {tuple(decode(key)) for key in keys} == {("id", "a_id")}
    # Its resolved ends are the new topic's own.
    ends = world.resolved().ends() or {}
    assert ends[change(n, n, "b"), 0] <= len(world.records(change(n, n, "b"))) + 20
    world.stop(capture)
    capture = world.start("run")
    world.sql(f"INSERT INTO {n}.b VALUES (6, 1, 'restarted')")
    world.wait_until_complete()
    assert world.copy("b") == world.truth("b")
    world.stop(capture)


def test_rows_of_today_are_what_a_versioned_table_s_topic_has(world: CaptureHarness) -> None:
    n = world.name
    world.more = ["v", "e"]
    world.sql(
        f"CREATE TABLE {n}.v (id int PRIMARY KEY, t varchar(20), d date) WITH SYSTEM VERSIONING",
        f"CREATE TABLE {n}.e (id int PRIMARY KEY, t varchar(20), s timestamp(6) GENERATED ALWAYS AS ROW START, "
        "u timestamp(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, u)) WITH SYSTEM VERSIONING",
        f"INSERT INTO {n}.v VALUES (1, 'a', '2026-01-01'), (2, 'b', NULL), (3, 'c', NULL)",
        f"INSERT INTO {n}.e (id, t) VALUES (1, 'a'), (2, 'b')",
        f"UPDATE {n}.v SET t = 'A' WHERE id = 1",
        f"DELETE FROM {n}.e WHERE id = 2",
    )
    world.run("run", "--snapshot")
    assert world.rows_read("v") == 3
    assert world.rows_read("e") == 1
    capture = world.start("run")
    world.sql(
        f"UPDATE {n}.v SET t = 'B' WHERE id = 2",
        f"DELETE FROM {n}.v WHERE id = 3",
        f"UPDATE {n}.v SET id = 10 WHERE id = 1",
        f"INSERT INTO {n}.v VALUES (4, 'new', '2026-04-04')",
        f"INSERT INTO {n}.e (id, t) VALUES (3, 'c')",
        f"UPDATE {n}.e SET t = 'again' WHERE id = 1",
        f"DELETE HISTORY FROM {n}.v",
    )
    world.wait_until_complete()
    # What an update leaves in the past is the newest event of its key, and no row.
    assert world.copy("v") == world.truth("v")
    decode = Decoder(ConfluentRegistry(world.registry).schema)
    found = {row[0]: row[1] for row in world.copy("e").values()}
    assert found == {row[0]: row[1] for row in world.truth("e").values()}
    ops = [decode(record.value)["op"] for record in world.records(change(n, n, "v")) if record.value]
    assert sorted(ops) == ["c", "c", "d", "d", "r", "r", "r", "u"]
    world.run("request-snapshot", "--tables", "v,e", "--wait", "--timeout", "60")
    world.wait_until_complete()
    assert world.copy("v") == world.truth("v")
    world.stop(capture)
    versions = world.versions()
    assert versions == list(range(1, versions[-1] + 1))


def test_a_table_that_another_with_wider_keys_replaces_is_set_aside_until_asked_for(world: CaptureHarness) -> None:
    n = world.name
    world.declare(filter={"_b*": {"policy": "drop"}})
    world.sql(f"INSERT INTO {n}.b VALUES (1, 1, 'x'), (2, 1, 'y')")
    world.run("run", "--snapshot")
    before = _topic_id(world, "b")
    capture = world.start("run")
    world.sql(
        f"CREATE TABLE {n}._b_new LIKE {n}.b",
        f"ALTER TABLE {n}._b_new MODIFY id int NOT NULL",
        f"INSERT INTO {n}._b_new SELECT * FROM {n}.b",
        f"RENAME TABLE {n}.b TO {n}._b_old, {n}._b_new TO {n}.b",
    )
    world.wait(lambda: _aside(world) == [f"{n}.b"])
    world.sql(f"INSERT INTO {n}.b VALUES (3, 1, 'z')", f"INSERT INTO {n}.a VALUES (1, 1, 'x', 1, NULL)")
    assert _topic_id(world, "b") == before
    world.run("resume-table", "b", "--wait", "--timeout", "60")
    world.wait_until_complete()
    assert _topic_id(world, "b") != before
    assert world.copy("b") == world.truth("b")
    assert world.copy("a") == world.truth("a")
    world.stop(capture)
    # The same by hand, of all tables: their topics are made anew where their keys are others.
    other = _topic_id(world, "a")
    world.sql(f"ALTER TABLE {n}.b MODIFY id bigint NOT NULL")
    renewed = _topic_id(world, "b")
    world.run("run", "--snapshot", "--anew")
    assert _topic_id(world, "b") != renewed
    assert _topic_id(world, "a") == other
    capture = world.start("run")
    world.sql(f"DELETE FROM {n}.b WHERE id = 1")
    world.wait_until_complete()
    assert world.copy("b") == world.truth("b")
    world.stop(capture)
