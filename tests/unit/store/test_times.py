"""When objects were written, as far as a store tells."""

from __future__ import annotations

import datetime as dt

from botocore.stub import Stubber

from include.clock import ManualClock
from include.store.memory import MemoryStore
from include.store.s3 import S3Store

WRITTEN = dt.datetime(2026, 11, 21, 10, 0, 0, 500_000, tzinfo=dt.UTC)
WRITTEN_US = 1_795_255_200_500_000


def test_s3_tells_it_in_listings_and_of_an_object() -> None:
    store = S3Store("http://127.0.0.1:9", "b", "a", "s")
    try:
        with Stubber(store._patient) as stub:
            page = {"Contents": [{"Key": "k", "Size": 1, "ETag": "e", "LastModified": WRITTEN}], "IsTruncated": False}
            stub.add_response("list_objects_v2", page)
            stub.add_response("head_object", {"ContentLength": 1, "ETag": "e", "LastModified": WRITTEN})
            (listed,) = store.list("")
            seen = store.head("k")
    finally:
        store.close()
    assert seen is not None
    assert listed.modified_us == seen.modified_us == WRITTEN_US


def test_the_double_tells_it_by_its_clock_and_not_at_all_without_one() -> None:
    clock = ManualClock(7)
    store = MemoryStore(clock)
    store.put("k", b"1")
    clock.advance(1)
    store.put("l", b"2")
    assert [info.modified_us for info in store.list("")] == [7, 1_000_007]
    assert MemoryStore().put("k", b"").modified_us is None


def test_two_objects_that_differ_by_their_times_alone_are_the_same() -> None:
    assert MemoryStore(ManualClock(1)).put("k", b"1") == MemoryStore(ManualClock(2)).put("k", b"1")
