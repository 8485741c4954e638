"""A captured table against its topic, on real servers, while it is written."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from include.log.kafka.log import KafkaWriter
from include.log.topics import change
from include.record.version import to_header
from tests.support.servers.fixture import Give, server
from tests.support.source.capture_harness import opened
from tests.support.source.table_writers import TableWriters
from tests.support.tables.audit_scenario import TableAuditScenario, captured

__all__ = ["server"]

ROUNDS = 3
KEYS = {
    "unsigned": ("k bigint unsigned", "seq * 52000000000000000"),
    "money": ("k decimal(12,4)", "seq / 8 - 20"),
    "day": ("k date", "DATE_ADD('2001-01-01', INTERVAL seq DAY)"),
    "moment": ("k datetime(3)", "DATE_ADD('2001-01-01 00:00:00', INTERVAL seq * 250000 MICROSECOND)"),
    "stamp": ("k timestamp(6)", "DATE_ADD('2001-01-01 00:00:00', INTERVAL seq * 777 SECOND)"),
    "raw": ("k varbinary(9)", "LEFT(UNHEX(MD5(seq)), 9)"),
    "pair": ("k tinyint, l smallint", "CAST(seq AS SIGNED) % 5 - 2, seq"),
}
"""Tables whose key divides them: its columns, and their values."""


def test_a_topic_is_its_table_while_others_write(scene: TableAuditScenario) -> None:
    with TableWriters(scene.world):
        for _ in range(ROUNDS):
            report = scene.audit()
            assert report.verdict == "clean", report.lines()
            assert report.rows > 900
            assert report.ranges > 5
    for table, verdict in (("b", "clean"), ("c", "clean"), ("none", "nothing")):
        report = scene.audit(table)
        assert report.verdict == verdict, report.lines()
        assert (report.ranges == 1) is (table != "b")


def test_ranges_of_every_kind_of_key_are_the_same_on_both_sides(scene: TableAuditScenario) -> None:
    for table, (columns, row) in KEYS.items():
        names = ", ".join(each.split()[0] for each in columns.split(", "))
        scene.world.sql(
            f"CREATE TABLE {scene.world.name}.{table} ({columns}, v int, PRIMARY KEY ({names}))",
            "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
            f"INSERT INTO {scene.world.name}.{table} SELECT {row}, seq FROM seq_1_to_350",
        )
        scene.world.more.append(table)
    scene.world.wait_until_complete()
    for table in KEYS:
        report = scene.audit(table)
        assert report.verdict == "clean", report.lines()
        assert (report.ranges, report.rows) == (4, 350)
    for table, (_, row) in KEYS.items():
        scene.behind_the_log(
            f"UPDATE `{table}` SET v = -1 WHERE v IN (5, 250)",
            f"DELETE FROM `{table}` WHERE v = 9",
            "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
            f"INSERT INTO `{table}` SELECT {row}, seq FROM seq_351_to_351",
        )
        report = scene.audit(table, repair=f"mend-{table}")
        assert report.verdict == "clean", report.lines()
        assert report.repaired is not None
        assert report.repaired["found"] == {"altered": 2, "extra": 1, "missing": 1}
        assert (report.repaired["rows"], report.repaired["whole"]) == (4, False)


def test_conditions_choose_the_same_rows_on_both_sides(scene: TableAuditScenario) -> None:
    name = scene.world.name
    scene.world.sql(
        "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
        f"CREATE TABLE {name}.w (id int PRIMARY KEY, u bigint unsigned, m decimal(10,2), d date, "
        "t datetime(3), s text)",
        f"INSERT INTO {name}.w SELECT seq, IF(seq % 9, seq * 52000000000000000, NULL), seq / 3 - 40, "
        "IF(seq % 7, DATE_ADD('2026-01-01', INTERVAL seq DAY), IF(seq % 2, '0000-00-00', '2026-02-31')), "
        "IF(seq % 5, DATE_ADD('2026-01-01', INTERVAL seq * 7654321 SECOND), '0000-00-00'), seq FROM seq_1_to_350",
    )
    scene.world.more.append("w")
    scene.world.wait_until_complete()
    for where in (
        "id BETWEEN 20 AND 290 AND NOT (m > 10.5 OR m = -7)",
        "u > 9300000000000000000 OR u IS NULL",
        "d < '2026-03-01'",
        "d >= '2026-02-28' AND d < '2026-06-01' AND s IS NOT NULL",
        "d IN ('2026-01-05', '2026-02-03') OR t >= '2027-01-01 12:00:00.5'",
        "NOT u <=> NULL AND m < id",
    ):
        ((count,),) = scene.world.ask(f"SELECT COUNT(*) FROM {name}.w WHERE {where}")
        report = scene.audit("w", where=where)
        assert report.verdict == "clean", report.lines()
        assert (report.rows, 0 < count < 350) == (count, True)
    scene.behind_the_log("UPDATE w SET s = 'lost' WHERE id IN (100, 200)")
    (found,) = scene.audit("w", where="id <= 150").found
    assert (found.kind, found.key) == ("altered", {"id": "100"})
    refused = scene.audit("w", where="s > 'a'")
    assert "not compared alike" in refused.error


def test_each_kind_of_fault_is_found_with_its_key_and_columns(scene: TableAuditScenario) -> None:
    name = scene.world.name
    scene.world.sql(f"UPDATE {name}.a SET v = 'a newer text' WHERE id = 500")
    scene.world.wait_until_complete()
    scene.behind_the_log(
        "UPDATE a SET v = 'lost' WHERE id = 77",
        "INSERT INTO a VALUES (5000, 1, 'lost', NULL, NULL)",
        "DELETE FROM a WHERE id = 123",
        "UPDATE a SET v = NULL, n = 7 WHERE id = 900",
        "UPDATE c SET d = d + 1e-17 WHERE k = 'key300'",
    )
    topic = change(name, name, "a")
    altered = next(r for r in reversed(scene.world.records(topic)) if r.value and b"row 600" in r.value)
    writer = KafkaWriter(scene.world.kafka, f"forger-{name}")
    writer.begin()
    headers = (to_header(int(dict(altered.headers)["version"]) + 1),)
    forged = altered.value.replace(b"row 600", b"row 6o0")
    writer.append(topic, altered.key, forged, headers=headers, partition=altered.partition)
    writer.commit()
    writer.close()
    scene.world.sql(f"INSERT INTO {name}.a VALUES (6000, 1, 'later', NULL, NULL)")
    report = scene.audit()
    assert report.error == ""
    found = {(each.kind, each.key["id"]): tuple(each.columns) for each in report.found}
    assert found == {
        ("altered", "77"): ("v",),
        ("missing", "5000"): (),
        ("extra", "123"): (),
        ("altered", "900"): ("v", "n"),
        ("altered", "600"): ("v",),
    }
    assert report.next_command == f"lyrebird audit tables --source {name} --table {name}.a --repair"
    scene.world.run("reread", f"{name}.a", "--key", "id=77", "--key", "id=5000", "--wait")
    assert {each.key["id"] for each in scene.audit().found} == {"123", "900", "600"}
    mended = scene.audit(repair="mend")
    assert mended.verdict == "clean", mended.lines()
    assert mended.repaired is not None
    assert mended.repaired["found"] == {"extra": 1, "altered": 2}
    assert scene.audit().verdict == "clean"
    (double,) = scene.audit("c").found
    assert (double.kind, double.key, double.columns) == ("altered", {"k": "Key300"}, ("d",))


def test_on_mysql_rows_that_changed_within_a_snapshot_s_span_are_looked_at_again(
    unique: str, tmp_path: Path, server: Give, kafka: str, registry_url: str, spark: SparkSession
) -> None:
    with opened(unique, tmp_path, server("mysql-9.7"), kafka, registry_url) as world:
        row = "(%s, %s, 'a text', 1.5, '2026-11-25 03:00:00.5')"
        world.sql(f"INSERT INTO {unique}.a VALUES {', '.join(row % (n, n % 7) for n in range(1, 501))}")
        with captured(world), TableWriters(world, 3):
            scene = TableAuditScenario(world, spark)
            for _ in range(ROUNDS):
                report = scene.audit()
                assert report.verdict == "clean", report.lines()
                assert report.ranges > 2
            scene.behind_the_log("UPDATE a SET v = 'lost' WHERE id = 400")
            (found,) = scene.audit().found
            assert (found.kind, found.key, found.columns) == ("altered", {"id": "400"}, ("v",))


def test_a_column_that_went_and_came_again_is_compared(scene: TableAuditScenario) -> None:
    name = scene.world.name
    scene.world.sql(
        f"CREATE TABLE {name}.x (id int PRIMARY KEY, v varchar(20), leaf int)",
        f"INSERT INTO {name}.x SELECT seq, seq, seq % 3 FROM seq_1_to_120",
    )
    scene.world.more.append("x")
    scene.world.wait_until_complete()
    scene.world.sql(f"ALTER TABLE {name}.x DROP COLUMN v", f"INSERT INTO {name}.x VALUES (500, 1)")
    scene.world.wait_until_complete()
    scene.world.sql(
        f"ALTER TABLE {name}.x ADD COLUMN v varchar(20) AFTER id",
        f"UPDATE {name}.x SET v = CONCAT('again ', id)",
        f"INSERT INTO {name}.x VALUES (501, 'new', 2)",
    )
    scene.world.wait_until_complete()
    report = scene.audit("x")
    assert (report.verdict, report.rows) == ("clean", 122), report.lines()
    scene.behind_the_log("UPDATE x SET v = 'lost' WHERE id = 7")
    (found,) = scene.audit("x").found
    assert (found.kind, found.key, found.columns) == ("altered", {"id": "7"}, ("v",))
