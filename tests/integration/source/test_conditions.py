"""Snapshots of chosen rows: a condition reads no column, no table and no row that capture does not let out."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from include.log.kafka.log import KafkaReader
from include.log.kafka.writer import KafkaWriter
from include.log.requests.records import Answer, Request
from include.log.topics import change, source_requests
from include.source.log.direct_log import answers_by_id
from tests.support.servers.fixture import Give, server
from tests.support.source.capture_harness import CaptureHarness, opened

pytestmark = pytest.mark.timeout(180)
__all__ = ["server"]

SECRET = "never-outside"


def asked(world: CaptureHarness, where: str) -> Answer:
    """Append a request as whoever may write to the topic can, and wait for its answer."""
    request = Request(where, "snapshot", "stranger", time.time_ns() // 1000, ("a",), where=where)
    writer = KafkaWriter(world.kafka, f"stranger.{world.name}")
    writer.begin()
    writer.append(source_requests(world.name), request.key(), request.value())
    writer.commit()
    writer.close()
    reader = KafkaReader(world.kafka)
    try:
        world.wait(lambda: answers_by_id(reader, world.name).get(where, Answer("", "accepted", 0)).state in END)
        return answers_by_id(reader, world.name)[where]
    finally:
        reader.close()


END = ("done", "refused")


@pytest.mark.parametrize("product", ["mariadb-11.4", "mysql-9.7"])
def test_a_condition_shows_no_masked_column_and_no_other_table(
    server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str, product: str
) -> None:
    with opened(unique, tmp_path, server(product), kafka, registry_url) as world:
        n = world.name
        world.sql(
            f"CREATE TABLE {n}.users (id int PRIMARY KEY, part int, email varchar(40), n decimal(9,2), at datetime)",
            f"ALTER TABLE {n}.a ADD secret varchar(40), ADD `o%d` int",
            f"INSERT INTO {n}.users VALUES (1, 1, '{SECRET}', 1, NULL)",
            f"INSERT INTO {n}.a VALUES (7, 1, 'it''s', 1.5, '2026-01-02 03:04:05', '{SECRET}', 1),"
            f" (8, 2, 'b\\\\s', 2.5, NULL, '{SECRET}', 2), (9, 3, 'c', NULL, NULL, '{SECRET}', 3)",
            f"ALTER TABLE {n}.a ADD l varchar(9) CHARACTER SET latin1 DEFAULT 'x'",
        )
        world.declare(
            filter={"users": {"policy": "drop"}, "a": {"ignored_columns": ["secret"], "masks": {"v": "null"}}}
        )
        world.run("run", "--snapshot")
        capture = world.start("run")
        for where in (
            f"1=0) UNION ALL SELECT id, part, email, n, at, 1 FROM {n}.users WHERE (1=1",
            f"1=0)) UNION ALL SELECT id, part, email, n, at, 1 FROM {n}.users -- ",
            "1=0) UNION ALL SELECT id, part, secret, n, at, 1 FROM a WHERE (1=1",
            "id = (SELECT MAX(id) FROM users)",
            f"secret = '{SECRET}'",
            "v = 'c'",
            "no_such = 1",
            "SLEEP(100) = 0",
        ):
            answer = asked(world, where)
            assert answer.state == "refused", answer
            assert "position=" in answer.note, answer
            said = world.run("snapshot", "--tables", "a", "--where", where, "--wait", code=1)[1]
            assert "position=" in said, said
        before = world.rows_read()
        assert asked(world, "id IN (7, 8) AND n BETWEEN 1.5 AND 2.50 AND `o%d` <> 2").state == "done"
        assert world.rows_read() == before + 1
        assert asked(world, "at >= '2026-01-02' AND NOT (at IS NULL OR part = 7)").state == "done"
        assert world.rows_read() == before + 2
        # What the server alone refuses ends the request, not the table.
        refused = asked(world, "at = 'no date'")
        assert refused.state == "refused" or world.about.flavour == "mariadb", refused
        for where in ("l = '日'", "l BETWEEN '日' AND '本'", "l IN ('日', '本', 'x')"):
            assert asked(world, where).state in END
        world.sql(f"UPDATE {n}.a SET n = 3 WHERE id = 9")
        world.wait_until_complete()
        assert world.status()["aside"] == []
        assert {key: row[3] for key, row in world.truth("a").items()} == {
            key: row[3] for key, row in world.copy("a").items()
        }
        leaked = [r for r in world.records(change(n, n, "a")) if r.value and SECRET.encode() in r.value]
        assert leaked == []
        world.stop(capture)
