"""From records to buckets: nothing is lost on the way, and what cannot be read is kept whole."""

from __future__ import annotations

import pytest

from include.join.algorithm.row import Touch
from include.join.gathering import Gathering, Work, bucket_of
from include.log.ports import Headers, Record
from include.record import version as versions
from tests.unit.join.histories import History
from tests.unit.join.test_avro_rows import Setup, encoded, set_up

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


def gathering(setup: Setup, floors: dict[str, int] | None = None) -> Gathering:
    readers = {f"t{i}": reader for i, reader in enumerate(setup.readers)}
    bases = {("t0", 0): 100, ("t1", 0): 200}
    return Gathering(readers, bases, floors or {}, BUCKETS)


def record(setup: Setup, offset: int, join_key: int | None, *, version: int | None = 7, key: int = 1) -> Record:
    row = {"note": {}, "id0": key, "j": join_key, "v0": 0, "g0": 0, "rest": ""}
    value = {"before": None, "after": row, "source": "", "op": "c"} if setup.readers[0].change else row
    headers: Headers = () if version is None else (versions.to_header(version),)
    return Record(
        "t0", 0, offset, encoded(setup.schemas[10], 10, {"id0": key}), encoded(setup.schemas[20], 20, value), headers
    )


def unpacked(gathered: Gathering) -> Work:
    return Work.unpack(gathered.work().values())


def test_a_record_s_work_goes_to_the_bucket_of_its_join_key_under_its_rank() -> None:
    setup = a_join(located=False)
    gathered = gathering(setup)
    gathered.take(record(setup, 5, 2))
    ((bucket, frame),) = gathered.work().items()
    (touch,) = map(Touch.of, Work.unpack([frame]).touches)
    assert bucket == bucket_of(touch.join_key, BUCKETS)
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
