"""Topics that somebody deletes, stopped capture or running one: the table is read into a new topic, and told of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from include.log.kafka.log import KafkaAdmin
from include.log.topics import change, document_spec
from tests.support.source.capture_harness import CaptureHarness, Database, opened

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def world(unique: str, tmp_path: Path, mariadb: Database, kafka: str, registry_url: str) -> Iterator[CaptureHarness]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as made:
        yield made


@pytest.fixture
def topic(world: CaptureHarness) -> str:
    """Of table b, in which rows lie that the binlog is not asked for any more."""
    n = world.name
    world.sql(f"INSERT INTO {n}.b (id, a_id, v) VALUES (1, 1, 'old'), (2, 1, 'changes'), (3, 1, 'goes')")
    world.run("run", "--snapshot")
    return change(n, n, "b")


def test_a_topic_deleted_while_capture_was_stopped_comes_back_whole(world: CaptureHarness, topic: str) -> None:
    n = world.name
    KafkaAdmin(world.kafka).delete(topic)
    world.sql(f"DELETE FROM {n}.b WHERE id = 3")
    capture = world.start("run")
    world.sql(f"UPDATE {n}.b SET v = 'changed' WHERE id = 2")
    world.wait_until_complete()
    assert world.copy("b") == world.truth("b")
    world.stop(capture)


def test_a_topic_that_is_made_with_more_partitions_takes_all_rows(world: CaptureHarness, topic: str) -> None:
    n = world.name
    KafkaAdmin(world.kafka).delete(topic)
    world.declare(table_partitions={"a": 3, "b": 5})
    capture = world.start("run")
    world.sql(f"INSERT INTO {n}.b (id, a_id, v) VALUES (4, 1, 'new')")
    world.wait_until_complete()
    made = KafkaAdmin(world.kafka).describe(topic)
    assert made is not None
    assert made.partitions == 5
    assert world.copy("b") == world.truth("b")
    world.stop(capture)


def test_a_topic_deleted_under_a_running_capture_comes_back_whole(world: CaptureHarness, topic: str) -> None:
    n, admin = world.name, KafkaAdmin(world.kafka)
    capture = world.start("run")
    world.sql(f"INSERT INTO {n}.b (id, a_id, v) VALUES (4, 1, 'live')")
    world.wait_until_complete()
    before = admin.describe(topic)
    admin.delete(topic)
    admin.ensure(document_spec(topic, 1))
    world.sql(f"UPDATE {n}.b SET v = 'changed' WHERE id = 2")
    # It looks once a minute.
    world.wait(lambda: world.copy("b") == world.truth("b"), 100)
    world.wait_until_complete()
    assert admin.describe(topic) != before
    world.stop(capture)
