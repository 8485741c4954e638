"""A captured table against its lake table, on real servers, while it is written; DuckDB reads what is kept."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from include.log.registry.confluent import ConfluentRegistry
from include.record.codec import Decoder
from include.record.gtid import GtidSet, MariadbGtidSet
from include.record.settling import COMMITTED, committed_place
from include.record.version import from_headers
from include.settings.connections import StoreSettings
from tests.support.source.table_writers import TableWriters
from tests.support.tables.audit_scenario import TableAuditScenario
from tests.support.tables.duckdb_reader import duck

ROUNDS = 3


def test_a_lake_table_is_its_table_while_others_write(
    scene: TableAuditScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene.lake(monkeypatch):
        scene.until_labelled()
        with TableWriters(scene.world):
            for _ in range(ROUNDS):
                report = scene.audit(against="lake")
                assert report.verdict == "clean", report.lines()
                assert "version" in report.against
        scene.behind_the_log("UPDATE a SET v = 'lost' WHERE id = 777", "DELETE FROM a WHERE id = 778")
        first, second = scene.audit(against="lake").found
        assert (first.kind, first.key, first.columns) == ("altered", {"id": "777"}, ("v",))
        assert (second.kind, second.key) == ("extra", {"id": "778"})
        report = scene.audit(against="lake", repair="mend")
        assert report.verdict == "clean", report.lines()


def within(at: MariadbGtidSet, gtids: GtidSet) -> bool:
    return isinstance(gtids, MariadbGtidSet) and at.contains(gtids)


def test_duckdb_makes_the_table_at_any_transaction_of_a_version_and_the_log(
    scene: TableAuditScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, draw = scene.world, random.Random(7)
    decode = Decoder(ConfluentRegistry(world.registry).schema)
    with scene.lake(monkeypatch), TableWriters(world):
        scene.until_labelled()
        for _ in range(ROUNDS):
            time.sleep(draw.uniform(0.5, 4))
            with world.server.connect(database=world.name) as connection, connection.cursor() as cursor:
                gtids = snapshot(cursor)
                cursor.execute("SELECT * FROM a")
                truth = {row[0]: row for row in cursor.fetchall()}
            at = MariadbGtidSet.parse(gtids)
            world.wait_until_complete()
            log = scene.lake_log()
            version, label = next(
                (version, label[world.name])
                for version, _, label in log.labels()
                if world.name in label and within(at, label[world.name].position.gtids)
            )
            changes: dict[int, tuple[Any, ...] | None] = {}
            for record in sorted(world.records(scene.topic()), key=lambda each: from_headers(each.headers)):
                value = decode(record.value) if record.value else None
                gtid = value["source"]["gtid"] if value else None
                if value and gtid and at.add(gtid) is at and label.position.gtids.add(gtid) is not label.position.gtids:
                    row = value["after"] or value["before"]
                    changes[row["id"]] = tuple(row.values())[:5] if value["after"] else None
            found = as_of(scene, version, changes)
            assert len(found) > 900
            assert found == truth


def snapshot(cursor: Any) -> str:
    """Opens one that nobody commits beside; the transactions that it has."""
    while True:
        cursor.execute(COMMITTED)
        at = committed_place(cursor.fetchall())
        assert at is not None
        cursor.execute("SELECT BINLOG_GTID_POS(%s, %s)", (at.file, at.pos))
        before = str(cursor.fetchone()[0])
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT @@global.gtid_binlog_pos")
        if str(cursor.fetchone()[0]) == before:
            return before
        cursor.execute("ROLLBACK")


def as_of(
    scene: TableAuditScenario, version: int, changes: dict[int, tuple[Any, ...] | None]
) -> dict[int, tuple[Any, ...]]:
    """A version of the lake's table with these changes, by DuckDB."""
    with duck(scene.deployment.one("store", StoreSettings)) as connection:
        connection.execute(
            'CREATE TABLE changes (id INT, part INT, v TEXT, n DECIMAL(12, 2), "at" TIMESTAMP, live BOOLEAN)'
        )
        rows = [(*row, True) if row else (key, None, None, None, None, False) for key, row in changes.items()]
        if rows:
            connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)", rows)
        found = connection.execute(
            'SELECT id, part, v, n, "at" FROM delta_scan(?, version = ?) ANTI JOIN changes USING (id) '
            'UNION ALL SELECT id, part, v, n, "at" FROM changes WHERE live',
            [scene.lake_log().uri, version],
        ).fetchall()
    assert len({row[0] for row in found}) == len(found)
    return {row[0]: row for row in found}


def test_what_is_expected_of_a_table_is_looked_at_in_its_lake_version(
    scene: TableAuditScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = scene.world.folder / "deployment" / "expectations.yaml"
    expect = {
        "known_parts": {"ExpectColumnValuesToBeInSet": {"column": "part", "value_set": [0, 1, 2, 3, 4, 5, 6]}},
        "short_texts": {"ExpectColumnMaxToBeBetween": {"column": "length", "max_value": 7}},
    }
    said = {"columns": {"length": "length(v)"}, "expect": expect}
    file.write_text(json.dumps({"expectations": {scene.topic(): said}}), "utf-8")
    with scene.lake(monkeypatch):
        scene.until_labelled()
        report = scene.audit(against="lake")
        assert [each["success"] for each in report.expected] == [True, False], report.lines()
        assert (report.verdict, report.findings, report.found) == ("findings", 1, [])
        assert report.lines()[0].endswith(".a: 1 expectations not met")
        assert report.next_command == f"lyrebird audit tables --source {scene.world.name} --table {scene.world.name}.a"
        assert scene.audit(against="topic").expected == []


def test_a_lake_row_that_is_old_and_a_file_that_is_cut_short_are_found(
    scene: TableAuditScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = scene.world.name
    scene.world.sql(f"UPDATE {name}.a SET v = 'newer' WHERE id = 500")
    with scene.lake(monkeypatch):
        scene.until_labelled()
        scene.world.wait(lambda: scene.audit(against="lake").verdict == "clean", 60)
    scene.edit_lake("a", "v", 500, "row 500")
    scene.edit_lake("a", "v", 501, "forged")
    found = {(each.kind, each.key["id"]): tuple(each.columns) for each in scene.audit(against="lake").found}
    assert found == {("stale", "500"): ("v",), ("altered", "501"): ("v",)}
    log = scene.lake_log()
    state = log.state()
    assert state is not None
    file = next(each for files in state.files.values() for each in files)
    place = f"{log.uri.removeprefix(f's3://{name}/')}/{file.path}"
    body = scene.bucket.get(place)
    assert body is not None
    scene.bucket.put(place, body.body[: len(body.body) // 2])
    cut = scene.audit(against="lake")
    assert file.path.rpartition("/")[2] in cut.error
    assert "lyrebird table rebuild" in cut.error
