"""From records to buckets: nothing is lost on the way, and what cannot be read is kept whole."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from include.join.algorithm.row import Touch
from include.join.gathering import RecordGathering, RecordWork
from include.join.native import WHY_NOT
from include.log.ports import Headers, Record
from include.record import version as versions
from include.record.key import partition_of
from tests.support.joins.histories import History
from tests.unit.join.test_avro_rows import AvroRun, Setup, encoded, set_up

pytestmark = pytest.mark.unit

BUCKETS = 4


def a_join(*, located: bool) -> Setup:
    """An inner join of two inputs, the first with envelopes or located."""
    for seed in range(10_000):
        history = History(seed)
        wanted = history.optional == (False, False) and not any(history.where)
        if wanted and history.located == (located, False):
            return set_up(history)
    raise AssertionError


def gathering(setup: Setup, floors: dict[str, int] | None = None) -> RecordGathering:
    readers = {f"t{i}": reader for i, reader in enumerate(setup.readers)}
    bases = {("t0", 0): 100, ("t1", 0): 200}
    return RecordGathering(readers, bases, floors or {}, BUCKETS)


def record(setup: Setup, offset: int, join_key: int | None, *, version: int | None = 7, key: int = 1) -> Record:
    row = {"note": {}, "id0": key, "j": join_key, "v0": 0, "g0": 0, "rest": ""}
    value = {"before": None, "after": row, "source": "", "op": "c"} if setup.readers[0].change else row
    headers: Headers = () if version is None else (versions.to_header(version),)
    return Record(
        "t0", 0, offset, encoded(setup.schemas[10], 10, {"id0": key}), encoded(setup.schemas[20], 20, value), headers
    )


def unpacked(gathered: RecordGathering) -> RecordWork:
    return RecordWork.unpack(gathered.work().values())


def test_a_record_s_work_goes_to_the_bucket_of_its_join_key_under_its_rank() -> None:
    setup = a_join(located=False)
    gathered = gathering(setup)
    gathered.take(record(setup, 5, 2))
    ((bucket, frame),) = gathered.work().items()
    (touch,) = map(Touch.of, RecordWork.unpack([frame]).touches)
    assert bucket == partition_of(touch.join_key, BUCKETS)
    assert (touch.rank, touch.input, touch.version) == (105, 0, 7)


def test_a_plain_topic_without_versions_counts_by_its_offsets() -> None:
    setup = a_join(located=True)
    gathered = gathering(setup)
    gathered.take(record(setup, 5, 2, version=None))
    (sighting,) = unpacked(gathered).sightings
    assert (sighting.version, sighting.rank) == (6, 105)


def test_a_change_without_a_version_is_set_aside_with_its_bytes() -> None:
    setup = a_join(located=False)
    gathered = gathering(setup)
    bad = record(setup, 5, 2, version=None)
    gathered.take(bad)
    work = unpacked(gathered)
    assert [each.record for each in work.refused] == [bad]
    assert "version" in work.refused[0].reason
    assert work.counts == {("t0", "read"): 1, ("t0", "refused"): 1}


def test_every_record_is_counted_once_by_what_became_of_it() -> None:
    setup = a_join(located=False)
    gathered = gathering(setup, floors={"t0": 3})
    good = record(setup, 5, 2)
    gathered.take(good)
    gathered.take(record(setup, 6, None))
    gathered.take(record(setup, 7, 2, version=2))
    gathered.take(Record("t0", 0, 8, good.key, b"no Avro", good.headers))
    work = unpacked(gathered)
    assert len(work.touches) == 1
    assert work.counts == {
        ("t0", "read"): 4,
        ("t0", "no_join_key"): 1,
        ("t0", "below_floor"): 1,
        ("t0", "refused"): 1,
    }


def test_the_same_records_make_the_same_bytes() -> None:
    setup = a_join(located=False)
    made = []
    for _ in range(2):
        gathered = gathering(setup)
        for offset in range(50):
            gathered.take(record(setup, offset, offset % 7, key=offset))
        made.append(gathered.work())
    assert made[0] == made[1]
    assert len(made[0]) > 1


class Message:
    """A record as Kafka's client has it."""

    def __init__(self, told: Record) -> None:
        self.told = told

    def topic(self) -> str:
        return self.told.topic

    def partition(self) -> int:
        return self.told.partition

    def offset(self) -> int:
        return self.told.offset

    def key(self) -> bytes | None:
        return self.told.key

    def value(self) -> bytes | None:
        return self.told.value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return list(self.told.headers) or None


def records(setup: Setup, draw: random.Random) -> list[Record]:
    """Those of a history, and some that are broken in one place."""
    run, found = AvroRun(setup), []
    for i, partitions in enumerate(setup.history.logs):
        for partition, log in enumerate(partitions):
            for offset, each in enumerate(log):
                key, value = run.encoded(i, each)
                found.append(Record(f"t{i}", partition, offset, key, value, (versions.to_header(each.version),)))
    return found + [broken(draw.choice(found), draw) for _ in range(10) if found]


def broken(told: Record, draw: random.Random) -> Record:
    kind, value = draw.randrange(6), told.value or b""
    # Of the head, which names the schema, the magic byte alone.
    at = draw.choice([0, *range(5, len(value))])
    if kind == 0:
        return replace(told, value=value[:at] + bytes((draw.randrange(256),)) + value[at + 1 :])
    if kind == 1:
        return replace(told, value=draw.choice([None, b"", value[: at or 3], value + b"\0"]))
    if kind == 2:
        key = told.key or b""
        return replace(told, key=draw.choice([None, b"", key[:4], key[:5], key + b"\0", b"\1" + key[1:]]))
    if kind == 3:
        odd = [b"", b"-1", b"1_0", b" 7", b"9007199254740992", b"00000000000000000009", b"9007199254740991", None]
        return replace(told, headers=(*told.headers, ("version", draw.choice(odd))))
    if kind == 4:
        return replace(told, headers=(("other", b"x"), ("version", b"oops"), *told.headers, ("other", None)))
    return replace(told, headers=())


@pytest.mark.parametrize("join_key", ["j", "g", "id"])
def test_messages_that_are_taken_in_c_make_what_their_records_make(join_key: str) -> None:
    draw, in_c, in_python = random.Random(7), 0, 0
    for seed in range(150):
        setup = set_up(History(seed, plain=seed % 2 == 0), join_key)
        told = records(setup, draw)
        readers = {f"t{i}": reader for i, reader in enumerate(setup.readers)}
        bases = {(each.topic, each.partition): 1000 * each.partition for each in told}
        floors = {"t0": draw.randrange(20)}
        by_record, by_message = (RecordGathering(readers, bases, floors, BUCKETS) for _ in range(2))
        for each in told:
            by_record.take(each)
        left: list[Record] = []

        def record_of(message: Message, left: list[Record] = left) -> Record:
            left.append(message.told)
            return message.told

        by_message.take_all([Message(each) for each in told], record_of)
        one, other = unpacked(by_record), unpacked(by_message)
        assert sorted(one.touches, key=repr) == sorted(other.touches, key=repr), seed
        assert one.sightings == other.sightings
        assert one.counts == other.counts
        assert one.refused == other.refused
        assert by_record.work().keys() == by_message.work().keys()
        in_c, in_python = in_c + len(told) - len(left), in_python + len(left)
    assert in_python > 100
    assert in_c > 500 or WHY_NOT
