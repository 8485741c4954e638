"""What an operator sees and does about a running capture: status, incidents, tables that are taken up again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from include.clock import SystemClock
from include.log.kafka.log import KafkaAdmin
from include.log.ports import TopicSpec
from include.log.topics import control, policy, source_requests, source_resolved
from include.source.database.binlog_files import BinlogFiles
from include.source.definition import SourceDefinition
from tests.support.source.capture_harness import CaptureHarness, opened


@pytest.fixture
def world(unique: str, tmp_path: Path, mariadb: Any, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as made:
        yield made


def _incidents(world: CaptureHarness) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.status()["incidents"]
    return found


def test_status_answers_while_a_first_capture_makes_its_topics(world: CaptureHarness) -> None:
    admin = KafkaAdmin(world.kafka)
    for topic in (source_resolved(world.name), control(world.name), source_requests(world.name)):
        admin.ensure(TopicSpec(topic, 1, policy(topic)))
        found = world.status()
        assert (found["sequence"], found["requests"], found["refused"], found["log"]) == (None, [], [], None)


def test_a_table_set_aside_is_an_incident_until_it_is_taken_up_again(world: CaptureHarness) -> None:
    n = world.name
    world.sql(f"INSERT INTO {n}.b VALUES (1, 1, 'x'), (2, 1, 'y')", f"INSERT INTO {n}.a VALUES (1, 1, 'x', 1, NULL)")
    world.run("run", "--snapshot")
    capture = world.start("run")
    world.sql(
        "SET SESSION binlog_row_image = MINIMAL",
        f"UPDATE {n}.b SET v = 'changed' WHERE id = 1",
        f"UPDATE {n}.b SET v = 'changed' WHERE id = 2",
        "SET SESSION binlog_row_image = FULL",
        f"INSERT INTO {n}.a VALUES (2, 1, 'y', 1, NULL)",
    )
    world.wait(lambda: _incidents(world) != [])
    (incident,) = _incidents(world)
    assert (incident["kind"], incident["group"]) == ("aside", f"{n}.b")
    assert incident["fix"] == f"lyrebird capture resume-table --source {n} {n}.b"
    # The incident shows at the first of the two changes that cannot be read; the insert comes after both.
    world.wait(lambda: world.status()["rows"].get("c", 0) >= 1 and world.status()["lag_bytes"] is not None)
    found = world.status()
    assert [each["table"] for each in found["aside"]] == found["uncovered"] == [f"{n}.b"]
    assert (found["running"], found["skipped"]) == (True, {"UPDATE_ROWS": 2})
    assert found["purge"]["basis"]
    assert "resume-table" in world.run("status")[0]
    said = world.run("resume-table", "nope", "--wait", code=1)[1]
    assert "no tables set aside" in said
    out, _ = world.run("resume-table", f"{n}.b", "--wait", "--timeout", "40", "--json")
    assert json.loads(out)["state"] == "done"
    world.wait_until_complete()
    assert world.copy("b") == world.truth("b")
    assert world.copy("a") == world.truth("a")
    world.wait(lambda: _incidents(world) == [])
    assert json.loads(world.run("request-snapshot", "--tables", "a", "--wait", "--json")[0])["rows"] == 2
    world.stop(capture)
    assert world.status()["running"] is False


def test_a_capture_that_is_taken_over_says_so_before_it_ends(world: CaptureHarness) -> None:
    world.run("run", "--snapshot")
    first = world.start("run")
    world.wait(lambda: world.sequence() > 2)
    world.start("run")
    first.communicate(timeout=60)
    assert first.returncode == 3
    told = json.loads((world.folder / "state" / "run" / f"by-hand-capture-{world.name}" / "gave-up.json").read_text())
    assert told["kind"] == "fenced"
    assert "taken over" in told["text"]


def test_a_cascade_beside_a_trigger_that_changes_the_same_table_is_noticed(world: CaptureHarness) -> None:
    n = world.name
    world.sql(
        f"CREATE TABLE {n}.child (id int PRIMARY KEY, b_id bigint, FOREIGN KEY (b_id) REFERENCES {n}.b (id) "
        "ON DELETE CASCADE)",
        f"CREATE TRIGGER {n}.first BEFORE DELETE ON {n}.b FOR EACH ROW DELETE FROM {n}.child WHERE id = 1",
        f"INSERT INTO {n}.b VALUES (1, 1, 'x'), (2, 1, 'y')",
        f"INSERT INTO {n}.child VALUES (1, 1), (2, 1), (3, 2)",
    )
    world.run("run", "--snapshot")
    world.start("run")
    world.sql(f"DELETE FROM {n}.b WHERE id = 1")
    world.wait(lambda: world.status()["uncovered"] == [f"{n}.child"])
    world.run("resume-table", "child", "--wait", "--timeout", "40")
    world.wait_until_complete()
    assert world.copy("child") == world.truth("child")
    assert [*world.copy("child")] == [3]


def test_changes_that_a_cascade_hides_are_an_incident_until_the_table_is_read_again(world: CaptureHarness) -> None:
    n = world.name
    # An account that may only read: `information_schema` shows it no keys.
    world.sql(
        f"REVOKE REFERENCES ON *.* FROM {n}@'%'",
        f"CREATE TABLE {n}.child (id int PRIMARY KEY, b_id bigint, CONSTRAINT gone FOREIGN KEY (b_id) REFERENCES "
        f"{n}.b (id) ON DELETE CASCADE)",
        f"INSERT INTO {n}.b VALUES (1, 1, 'x'), (2, 1, 'y')",
        f"INSERT INTO {n}.child VALUES (1, 1), (2, 2)",
    )
    world.run("run", "--snapshot")
    world.start("run")
    world.sql(f"DELETE FROM {n}.b WHERE id = 1", f"DELETE FROM {n}.b WHERE id = 2")
    world.wait(lambda: _incidents(world) != [])
    (incident,) = _incidents(world)
    assert (incident["kind"], incident["group"]) == ("orphans", f"{n}.child")
    assert world.status()["uncovered"] == [f"{n}.child"]
    world.run("resume-table", "child", "--wait", "--timeout", "40")
    world.wait_until_complete()
    assert world.copy("child") == world.truth("child") == {}
    world.wait(lambda: _incidents(world) == [])


def test_a_server_that_purges_within_a_day_is_an_incident(world: CaptureHarness) -> None:
    ((kept,),) = world.ask("SELECT @@global.binlog_expire_logs_seconds")
    world.sql("SET GLOBAL binlog_expire_logs_seconds = 7200")
    try:
        found = json.loads(world.run("check", "--json")[0])
        assert found["purge"]["hours"] == 2
        assert [each["level"] for each in found["findings"] if each["place"] == "binlog"] == ["warn"]
        world.run("run", "--snapshot")
        capture = world.start("run")
        world.wait(lambda: _incidents(world) != [])
        (incident,) = _incidents(world)
        assert incident["kind"] == "purge"
        assert "in 2.0 h the server" in incident["text"]
        world.stop(capture)
        capture = world.start("run")
        world.wait(lambda: world.status()["running"])
        assert [each["id"] for each in _incidents(world)] == [incident["id"]]
        assert world.status()["purge"]["hours"] == 2
        world.stop(capture)
    finally:
        world.sql(f"SET GLOBAL binlog_expire_logs_seconds = {kept}")


def test_the_server_tells_when_its_files_began(world: CaptureHarness) -> None:
    declared = json.loads((world.folder / "deployment" / "d.yaml").read_text())["sources"][world.name]
    files, clock = BinlogFiles(SourceDefinition.model_validate(declared), SystemClock()), SystemClock()
    world.sql("FLUSH BINARY LOGS")
    before = world.end().binlog
    world.sql("FLUSH BINARY LOGS", f"INSERT INTO {world.name}.b VALUES (1, 1, 'x')")
    began = files.started(world.end().binlog.file)
    assert began is not None
    assert abs(clock.now_us() - began) < 60_000_000
    look = files.look(before)
    assert look.lag_bytes is not None
    assert look.lag_bytes > 0
    assert look.oldest_age_h is not None
    assert files.started("bin.999999") is None
    assert files.look_at_end().lag_bytes == 0
