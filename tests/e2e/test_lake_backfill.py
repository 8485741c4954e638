"""A parser with a bug, found after Kafka has dropped the records: mended from the raw copy while traffic goes on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from include.log.kafka.log import KafkaAdmin
from include.log.ports import TopicSpec
from include.settings.connections import StoreSettings
from include.settings.deployment import Deployment
from include.store.s3 import S3Store, store_of
from tests.support.lake import clicks
from tests.support.lake.threaded_groups import ListingReader, ThreadedGroups

pytestmark = pytest.mark.timeout(900)

TOPIC, RAW, DATES = "clicks", "clicks/raw", "clicks/dates"
FOLDER = f"{DATES}/{TOPIC}"
GROUPS = ["clicks_raw", "clicks"]


class Harness:
    """The topic, its groups and its bucket on the running platform."""

    def __init__(self, platform: Any, folder: Path) -> None:
        self.platform, self.folder, self.kafka = platform, folder, platform.kafka
        self.declare(clicks.WRONG)
        self.store: S3Store = store_of(Deployment.load().one("store", StoreSettings))
        KafkaAdmin(self.kafka.bootstrap, self.kafka.options).ensure(
            TopicSpec(TOPIC, clicks.PARTITIONS, {"retention.ms": "-1"})
        )
        midnight = dt.datetime.combine(dt.datetime.now(dt.UTC).date(), dt.time(), dt.UTC)
        self.begin_ms = int(midnight.timestamp() * 1000) - 3 * clicks.DAY_MS

    def declare(self, *versions: Any) -> None:
        groups = {"clicks_raw": clicks.backup(TOPIC, RAW), "clicks": clicks.partitioned(TOPIC, DATES, *versions)}
        clicks.write_groups(self.platform.deployment, groups)

    def day(self, number: int) -> str:
        return clicks.day(self.begin_ms + number * clicks.DAY_MS)

    def live(self) -> ThreadedGroups:
        return ThreadedGroups(Deployment.load(), GROUPS, self.folder / "live")

    def reader(self) -> ListingReader:
        since, until = (dt.date.fromisoformat(self.day(number)) for number in (-1, 5))
        return ListingReader(self.store, DATES, TOPIC, since, until)

    def stored(self, ends: dict[int, int]) -> bool:
        """Whether both groups have committed all partitions up to these offsets."""
        heads: dict[tuple[str, int], int] = {}
        for prefix in (RAW, DATES):
            for partition, _, until in clicks.cuts_of(self.store, prefix, TOPIC, 1):
                heads[prefix, partition] = max(heads.get((prefix, partition), 0), until)
        return all(heads.get((prefix, p), 0) >= end for prefix in (RAW, DATES) for p, end in ends.items())

    def backfill(self) -> None:
        asked = {"topic": TOPIC, "from": self.day(0), "to": self.day(4), "version": 2}
        airflow = self.platform.airflow
        run = airflow.trigger("lake_backfill", asked)
        state = airflow.wait("lake_backfill", run, 400)
        logs = [
            airflow.log("lake_backfill", run, task["task_id"], task["try_number"] or 1)[-2000:]
            for task in airflow.tasks("lake_backfill", run)
            if state != "success" and task["state"] != "success"
        ]
        assert state == "success", "\n".join(logs)


@pytest.fixture
def world(platform: Any, tmp_path: Path) -> Iterator[Harness]:
    made = Harness(platform, tmp_path)
    # At ten past the hour it would tell the dates before the test asks for them.
    platform.airflow._call("PATCH", "/api/v2/dags/lake_finalise", json={"is_paused": True})
    yield made
    platform.airflow.unpause("lake_finalise")
    made.store.close()
    (platform.deployment / "clicks.yaml").unlink()
    KafkaAdmin(made.kafka.bootstrap, made.kafka.options).delete(TOPIC)


def finished(told: dict[str, Any]) -> dict[str, tuple[str, int, int]]:
    """By date what has happened to it, its edition and its records."""
    (topic,) = told["topics"]
    return {date["date"]: (date["change"], date["edition"], date["records"]) for date in topic["dates"]}


def test_a_parser_bug_is_mended_from_the_raw_copy_while_traffic_goes_on(world: Harness, eventually: Any) -> None:
    traffic = clicks.Traffic(world.kafka, TOPIC)
    for batch in range(12):
        traffic.send(world.begin_ms + (batch * 100 + place) * clicks.DAY_MS // 600 for place in range(100))
    old = traffic.sent()
    with world.reader() as reader, traffic:
        with world.live():
            # Of now, too: dates are over when all partitions have come further.
            eventually("traffic goes on", lambda: len(traffic.sent()) > len(old) + 100, 30)
            some = clicks.ends_of(traffic.sent())
            eventually("what is old is stored", lambda: world.stored(some), 120)
            clicks.drop_from_kafka(world.kafka, TOPIC, clicks.ends_of(old))
        before = finished(clicks.lyrebird("finalise", TOPIC, "--group", "clicks"))
        world.declare(clicks.WRONG, clicks.fixed_since(dt.datetime.now(dt.UTC)))
        with world.live():
            world.backfill()
            reader.again()
            made, live = (clicks.cuts_of(world.store, DATES, TOPIC, number) for number in (2, 1))
            sent = traffic.sent()
            # Every cut that was made by then, whole; and each object as a right parser writes it.
            assert made < live
            assert all(any(p == at and first <= offset < until for p, first, until in made) for at, offset in old)
            assert clicks.objects_of(world.store, FOLDER, 2) == clicks.expected(sent, made, FOLDER, 2)
            bug = {cut for cut in made if cut[1] < clicks.ends_of(old)[cut[0]]}
            wrong = clicks.expected(sent, bug, FOLDER, 1, clicks.wrong_day)
            assert wrong.items() <= clicks.objects_of(world.store, FOLDER, 1).items()
            assert wrong != clicks.expected(sent, bug, FOLDER, 1)
            # A reader sees all old cuts, or all new ones.
            seen = [set().union(*(look.get(cut[:2], ()) for cut in made)) for look in reader.looks]
            assert {len(each) for each in seen} <= {0, 1}
            assert {1} in seen
            assert seen[-1] == {2}
            after = finished(clicks.lyrebird("finalise", TOPIC, "--group", "clicks"))
            clicks.lyrebird("expire", TOPIC, "--generation", "1", "--group", "clicks", "--yes")
            reader.again()
    # What was stored of the traffic since, too, and nothing else lies in the dates' folders.
    live, sent = clicks.cuts_of(world.store, DATES, TOPIC, 1), traffic.sent()
    right = clicks.expected(sent, made, FOLDER, 2) | clicks.expected(sent, live - made, FOLDER, 1)
    listed = clicks.lyrebird("files", TOPIC, "--group", "clicks", "--from", world.day(-1), "--to", world.day(5))
    assert {each["key"]: each["sha256"] for each in listed["objects"]} == right
    assert clicks.objects_of(world.store, FOLDER, 1) | clicks.objects_of(world.store, FOLDER, 2) == right
    assert set(before) == {world.day(0), world.day(1), world.day(2)}
    assert {each[:2] for each in before.values()} == {("finished", 1)}
    records = [sum(clicks.right_day(value) == world.day(number) for value in old.values()) for number in (0, 1)]
    assert [after[world.day(number)] for number in (0, 1)] == [("replaced", 2, each) for each in records]
