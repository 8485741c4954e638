"""What people are told of a job: status, incidents; and what its outputs look like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from include.clock import ManualClock
from include.errors import InvalidRecord
from include.eventtime.algorithm.order import ArrivedElement
from include.eventtime.algorithm.watermark import NEVER
from include.eventtime.config.definition import JobSourceDefinition
from include.eventtime.incidents import JobIncidents
from include.eventtime.model.typed import EventTime
from include.eventtime.outputs import value_schema
from include.eventtime.reading import ElementReader
from include.eventtime.status import job_status
from include.log import topics
from include.log.registry.memory import MemoryRegistry
from include.record.codec import Encoder
from tests.support.run_folder import MemoryRunFolder
from tests.unit.eventtime.driver_harness import APPLICATION, JobDriverHarness, Process
from tests.unit.eventtime.test_skew import FAST, LENGTH_S, Backlog

pytestmark = pytest.mark.unit

MINUTE_US = 60_000_000


def incidents(world: JobDriverHarness) -> JobIncidents:
    return JobIncidents("job", world.job.entry, MemoryRunFolder(), ManualClock(1_000_000))


def test_status_tells_how_far_a_job_is_and_who_holds_it_back() -> None:
    world = JobDriverHarness(1)
    reader, admin = world.log.reader(), world.log.admin()
    assert "has committed nothing yet" in job_status(world.job, reader, admin).lines()[1]
    process = Process(world)
    while any(world.waiting.values()):
        world.write(5)
        process.to_the_end()
    found = job_status(world.job, reader, admin)
    assert found.behind == 0
    assert found.late == len(world.late()) > 0
    assert found.partitions[0][2] == min(low for _, _, low in found.partitions)
    assert found.watermark == found.partitions[0][2]
    assert found.verdicts > 0
    world.waiting[world.history.places[0]] = [
        item for item in world.history.partitions[world.history.places[0]] if item.value
    ]
    world.write(3)
    assert job_status(world.job, reader, admin).behind >= 3


def test_a_partition_that_holds_the_watermark_back_is_told_of_until_it_does_no_more() -> None:
    world = JobDriverHarness(2)
    told, (one, *_) = incidents(world), world.history.places
    others = {("x", 0): 20 * MINUTE_US}
    told.after_batch({}, {one: 11 * MINUTE_US, **others})
    assert told.open() == []
    told.after_batch({}, {one: 9 * MINUTE_US, **others})
    (incident,) = told.open()
    assert incident["kind"] == "held"
    assert f"partition {one[1]} of {one[0]} holds the watermark of job back: it stands at" in incident["text"]
    told.after_batch({}, {one: 15 * MINUTE_US, **others})
    assert told.open() == []
    told.after_batch({}, {one: NEVER, **others})
    assert "it has brought nothing yet" in told.open()[0]["text"]


def test_late_elements_and_wrong_clocks_are_told_of() -> None:
    world = JobDriverHarness(2)
    told = incidents(world)
    told.after_batch({"read": 900, "late": 900}, {})
    assert told.open() == []
    told.after_batch({"read": 900, "late": 0}, {})
    assert [(each["kind"], each["text"][:5]) for each in told.open()] == [("late", "50.0%")]
    told.after_batch({"read": 2_000, "late": 3}, {})
    assert told.open() == []
    topic = world.history.topics[0]
    told.after_batch({f"refused {topic}": 2}, {})
    assert "2 records of t0 could not be read and were set aside in t0.app.dead" in told.open()[0]["text"]


def test_calls_that_raise_are_told_of() -> None:
    world = JobDriverHarness(2)
    told = incidents(world)
    told.after_batch({"failed": 3}, {})
    told.after_batch({"failed": 2}, {})
    (incident,) = told.open()
    assert incident["text"].startswith("5 calls of job raised")


def test_a_hundred_bad_records_among_many_good_ones_of_a_batch_end_no_job() -> None:
    world = Backlog()
    world.writer.begin()
    for _ in range(100):
        world.writer.append(world.topic, None, b"garbage", partition=0)
    world.writer.commit()
    process = Process(world)
    process.at = process.planner.latest(process.at)
    counts = process.runner.run(process.carry_out, process.at.plan())
    assert counts["read"] == 100 + (FAST + 1) * LENGTH_S
    assert counts[f"refused {world.topic}"] == 100
    reader, dead = world.log.reader(), topics.dead(world.topic, APPLICATION)
    assert sum(1 for _ in reader.read(dead, 0, 0, reader.end_offsets(dead)[0])) == 100


@dataclass
class Shown:
    """What is shown.

    And more.
    """

    kind: Literal["a", "b"]
    at: EventTime
    since: EventTime | None
    levels: dict[str, list[int]] = field(default_factory=dict)
    count: int = 3


def test_schemas_of_outputs_follow_their_dataclasses() -> None:
    time = {"type": "long", "logicalType": "timestamp-micros"}
    assert value_schema(Shown) == {
        "type": "record",
        "name": "Shown",
        "doc": "What is shown.",
        "fields": [
            {"name": "kind", "type": "string"},
            {"name": "at", "type": time},
            {"name": "since", "type": ["null", time], "default": None},
            {"name": "levels", "type": {"type": "map", "values": {"type": "array", "items": "long"}}},
            {"name": "count", "type": "long", "default": 3},
        ],
    }


def reader_of(unit: str = "iso", kind: type = str, **source: Any) -> ElementReader:
    said = {"topic": "t", "key": "of.device", "time": {"field": "at", "unit": unit}, **source}
    return ElementReader(0, JobSourceDefinition.model_validate(said), kind, REGISTRY)


REGISTRY = MemoryRegistry()
AVRO = {
    "type": "record",
    "name": "Track",
    "fields": [
        {"name": "of", "type": {"type": "record", "name": "Of", "fields": [{"name": "device", "type": "string"}]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def read(reader: ElementReader, value: bytes | None) -> ArrivedElement | None:
    return reader.read(1, 5, 2_000, value)


@pytest.mark.parametrize(
    ("unit", "at", "us"),
    [
        ("iso", '"1970-01-01T00:00:01.5Z"', 1_500_000),
        ("iso", '"1970-01-01T01:00:01+01:00"', 1_000_000),
        ("iso", '"1970-01-01T00:00:01"', 1_000_000),
        ("s", "1", 1_000_000),
        ("s", "1.000001", 1_000_001),
        ("ms", "1500", 1_500_000),
        ("us", "1500001", 1_500_001),
        ("ns", "1500000999", 1_500_000),
    ],
)
def test_event_times_are_read_in_each_unit(unit: str, at: str, us: int) -> None:
    found = read(reader_of(unit), b'{"of": {"device": "x"}, "at": %s}' % at.encode())
    assert found is not None
    assert (found.time, found.key, found.partition, found.offset) == (us, b'"x"', 1, 5)


@pytest.mark.parametrize(
    ("unit", "at"),
    [
        ("s", "1e308"),
        ("ms", "-1e300"),
        ("us", "9223372036854775807"),
        ("iso", '"0001-01-01T00:00:00"'),
        ("iso", '"1899-12-30T00:00:00Z"'),
        ("iso", '"9999-12-31T23:59:59Z"'),
    ],
)
def test_times_that_no_clock_shows_are_refused(unit: str, at: str) -> None:
    with pytest.raises(InvalidRecord, match=r"out of range|no number"):
        read(reader_of(unit), b'{"of": {"device": "x"}, "at": %s}' % at.encode())


def test_avro_and_json_are_told_apart_by_their_first_byte() -> None:
    encode = Encoder(REGISTRY.register("t-value", AVRO), AVRO)
    found = read(reader_of(), encode({"of": {"device": "x"}, "at": 1_500}))
    assert found is not None
    assert (found.time, found.key) == (1_500_000, b'"x"')


def test_kafkas_own_time_is_taken_where_no_field_is_named() -> None:
    found = read(reader_of(time={}), b'{"of": {"device": "x"}}')
    assert found is not None
    assert found.time == 2_000_000
    assert read(reader_of(), None) is None


def test_of_an_envelope_handlers_get_what_is_inside() -> None:
    envelope = b'{"of": {"device": "x"}, "at": "1970-01-01", "in": {"body": {"battery": 7}}}'
    found = read(reader_of(value="in.body"), envelope)
    assert found is not None
    assert (found.key, found.value) == (b'"x"', b'{"battery":7}')
    with pytest.raises(InvalidRecord, match="no record of fields") as refused:
        read(reader_of(value="in.battery"), envelope)
    assert refused.value.details["field"] == "in.battery"


@pytest.mark.parametrize(
    ("value", "unit", "reason"),
    [
        (b"{", "iso", "value is not JSON"),
        (b"[1]", "iso", "no record of fields"),
        (b'{"of": {"device": 1}, "at": "1970-01-01"}', "iso", "not of the job's type"),
        (b'{"of": 3, "at": "1970-01-01"}', "iso", "not of the job's type"),
        (b'{"of": {"device": "x"}}', "iso", "not ISO 8601"),
        (b'{"of": {"device": "x"}, "at": "yesterday"}', "iso", "not ISO 8601"),
        (b'{"of": {"device": "x"}, "at": "1"}', "ms", "is no number"),
        (b'{"of": {"device": "x"}, "at": true}', "ms", "is no number"),
        (b'{"of": {"device": "x"}, "at": 9000000000000000}', "s", "out of range"),
        (b'{"of": {"device": "x"}, "at": 3700}', "s", "later than the record's own"),
    ],
)
def test_what_is_no_element_is_set_aside_with_the_reason(value: bytes, unit: str, reason: str) -> None:
    with pytest.raises(InvalidRecord, match=reason):
        read(reader_of(unit), value)
