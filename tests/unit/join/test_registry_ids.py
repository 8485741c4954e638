"""The known configuration, verbatim: two Avro topics, named by ids of a registry; of several reviews one is shown."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from include.clock import ManualClock
from include.errors import SettingsError
from include.join.config.deployed import declared_joins
from include.join.opening import opened_join
from include.log.memory import MemoryLog
from include.log.planning.plan import StreamSpec
from include.log.planning.planner import BatchPlanner
from include.log.planning.survey import PortSurvey
from include.log.ports import TopicSpec
from include.log.registry.memory import MemoryRegistry
from include.record.codec import Decoder, Encoder
from include.settings.deployment import Deployment
from tests.support.log.memory_access import memory_access
from tests.unit.join import driver_harness
from tests.unit.join.driver_harness import Process, States
from tests.unit.join.test_replay import REVIEWS

pytestmark = pytest.mark.unit
TOPICS = ("sales.reviews", "sales.businesses")
OUT = "joinery_example.business_review_join"
Row = dict[str, Any]


def record(called: str, /, **fields: str) -> dict[str, Any]:
    return {"type": "record", "name": called, "fields": [{"name": each, "type": kind} for each, kind in fields.items()]}


def of_kind(business_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schemas of reviews and businesses, whose ids of businesses have this type."""
    return (
        record("Review", review_id="long", biz_id=business_id, user_id="long", content="string"),
        record("Business", business_id=business_id, name="string", address="string", state="string"),
    )


REVIEW, BUSINESS = of_kind("long")


class Harness:
    """Two keyed compacted topics whose values have the schema ids 12345 and 23143."""

    def __init__(self, folder: Path, text: str = REVIEWS, business_id: str = "long") -> None:
        self.clock = ManualClock()
        self.log, self.registry, self.states = MemoryLog(self.clock), MemoryRegistry(), States()
        self.schemas, self.encode = self.registry, dict[str, Encoder]()
        for topic in TOPICS:
            self.log.admin().ensure(TopicSpec(topic, 2, {"cleanup.policy": "compact"}))
        self.register(business_id, (12345, 23143))
        (folder / "joins").mkdir()
        (folder / "joins" / "reviewed.yaml").write_text(text)
        joins = {"reviewed": {"application": "joins", "file": "joins/reviewed.yaml"}}
        applications = {"joins": {"entry": "spark_apps/join.py", "topics": [OUT]}}
        (folder / "all.yaml").write_text(yaml.safe_dump({"joins": joins, "applications": applications}))
        self.join = declared_joins(Deployment.load(folder, {}))["reviewed"]
        self.writer = self.log.writer("sales")

    def register(self, business_id: str, ids: tuple[int, ...] = ()) -> None:
        """Register the schemas that rows are written by from now on; `ids`: of the values'."""
        for number, (topic, schema) in enumerate(zip(TOPICS, of_kind(business_id), strict=True)):
            if ids:
                self.registry._ids = itertools.count(ids[number])
            first = schema["fields"][0]
            for part, each in (("value", schema), ("key", record("Key", **{first["name"]: first["type"]}))):
                self.encode[f"{topic}-{part}"] = Encoder(self.registry.register(f"{topic}-{part}", each), each)

    def put(self, topic: str, row: Row, *, deleted: bool = False) -> None:
        """A row, or the tombstone of its key."""
        key = next(iter(row))
        self.writer.begin()
        value = None if deleted else self.encode[f"{topic}-value"](row)
        self.writer.append(topic, self.encode[f"{topic}-key"]({key: row[key]}), value)
        self.writer.commit()

    def shown(self) -> list[tuple[Row, Row]]:
        """The newest of each key in the joined topic."""
        decode, reader = Decoder(self.registry.schema), self.log.reader()
        last: dict[bytes, bytes | None] = {}
        for partition, end in reader.end_offsets(OUT).items():
            last |= {each.key or b"": each.value for each in reader.read(OUT, partition, 0, end)}
        return [(decode(key), decode(value)) for key, value in last.items() if value is not None]


class Run(Process):
    def __init__(self, world: Harness) -> None:
        self.world: Any = world
        reader, admin = world.log.reader(), world.log.admin()
        access = memory_access(world.log, world.registry, world.clock)
        opened = opened_join(world.join, "joins", access, frozenset(), self.equip)
        self.runner = opened.runner
        spec = StreamSpec("-", tuple(self.runner.topics), opened.start, opened.cut_at)
        self.planner = BatchPlanner(spec, PortSurvey(reader, admin), [], world.clock)
        self.at = spec.initial()


def review(id: int, user: int) -> Row:
    return {"review_id": id, "biz_id": 7, "user_id": user, "content": "good"}


BUSINESS_7 = {"business_id": 7, "name": "n", "address": "a", "state": "CA"}


def test_values_have_just_the_three_fields_and_of_several_reviews_one_is_shown_until_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Harness(tmp_path)
    assert world.registry.schema(12345) == REVIEW
    assert world.registry.schema(23143) == BUSINESS
    monkeypatch.setattr(driver_harness, "BUCKETS", world.join.file.buckets)
    run = Run(world)
    world.put("sales.businesses", BUSINESS_7)
    for id, user in ((1, 31), (2, 32), (3, 33)):
        world.put("sales.reviews", review(id, user))
    run.to_the_end()
    ((key, value),) = world.shown()
    assert [*key.values()] == [7]
    assert value == {"biz_id": 7, "user_id": value["user_id"], "state": "CA"}
    users = {31, 32, 33}
    while users:
        ((_, value),) = world.shown()
        assert value["user_id"] in users
        users.remove(value["user_id"])
        world.put("sales.reviews", review(value["user_id"] - 30, 0), deleted=True)
        run.to_the_end()
    assert world.shown() == []


def test_an_id_that_no_topic_or_several_have_is_refused_with_the_list(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with pytest.raises(SettingsError, match="99999"):
        Run(Harness(tmp_path / "one", REVIEWS.replace("12345", "99999")))
    (tmp_path / "two").mkdir()
    world = Harness(tmp_path / "two")
    world.log.admin().ensure(TopicSpec("sales.more", 1, {"cleanup.policy": "compact"}))
    world.registry.register("sales.more-value", REVIEW)
    with pytest.raises(SettingsError, match=r"sales\.more"):
        Run(world)
