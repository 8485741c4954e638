"""A topic whose name begins with an underscore is stored where it is named, and told as left out where it is not."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from include.audit.chain.platform import audit_in_bucket
from include.lake.inspect.listing import Dates, list_topic
from include.lake.inspect.status import group_status
from tests.support.lake.stored_topic import NOW_US, StoredTopic, backup_group

NAMED = backup_group(topics=["*", "_schemas"])
DAY = dt.datetime.fromtimestamp(NOW_US / 1e6, dt.UTC).date()


def test_it_is_stored_listed_and_audited_in_a_folder_that_readers_see(tmp_path: Path) -> None:
    world = StoredTopic(tmp_path)
    world.append([b"schema 1", b"schema 2"], "_schemas")
    world.append([b"x"], "_other")
    world.store_all(NAMED)
    objects = [info.key for info in world.store.list("raw/=")]
    assert [key.split("/")[:2] for key in objects] == [["raw", "=_schemas"]]
    assert [each.key for each in list_topic(world.store, "raw", "_schemas", Dates(DAY, DAY))] == objects
    (report,) = audit_in_bucket(world.store, {"raw": NAMED}, (), world.clock)
    assert (report.topic, report.clean, report.groups[0].records) == ("_schemas", True, 2)


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    world = StoredTopic(tmp_path)
    for topic in ("events", "_schemas", "__consumer_offsets", ".hidden"):
        world.append([b"x"], topic)
    every = group_status("g", backup_group(topics=["*"]), world.store, world, NOW_US // 1000)
    assert every.left_out == (".hidden", "_schemas")
    named = group_status("g", NAMED, world.store, world, NOW_US // 1000)
    assert named.left_out == (".hidden",)
    assert {each.topic for each in named.partitions} == {"events", "_schemas"}
