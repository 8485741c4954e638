"""Old objects of a state go by themselves, also after a server was away."""

from __future__ import annotations

import threading

import pytest

from include.clock import ManualClock
from include.errors import Transient
from include.state.housekeeping import RemovalCounts, housekeeping
from include.state.opening import StatePlace
from include.state.pointer import BucketPointer, Log
from include.store.memory import MemoryStore

pytestmark = pytest.mark.unit


def test_what_no_pointer_names_goes_once_it_is_old_and_a_log_that_is_away_only_delays_it() -> None:
    clock = ManualClock(10_000_000)
    store, place = MemoryStore(clock), StatePlace("/nowhere", "state/t/")
    for uid in ("named", "old"):
        store.put(f"state/t/rows-0001/log-{uid}", b"x")
    store.put("state/other/rows-0001/log-old", b"x")
    clock.advance(100)
    store.put("state/t/rows-0001/log-young", b"x")
    pointer = BucketPointer("named", None, (Log("named", 1),)).to_bytes()
    heard, looks, removed = threading.Event(), iter([True, False]), list[RemovalCounts]()

    def pointers() -> list[tuple[tuple[str, int], bytes]]:
        if next(looks, False):
            raise Transient("the log is away", system="kafka", attempt=1)
        return [(("rows", 1), pointer)]

    def done(each: RemovalCounts) -> None:
        removed.append(each)
        heard.set()

    with housekeeping(store, place, pointers, clock, every_s=0.01, kept_s=50, done=done):
        assert heard.wait(10)
    assert removed[0] == RemovalCounts(1, 1)
    assert {info.key.rpartition("/")[2] for info in store.list("state/t/")} == {"log-named", "log-young"}
    assert len(list(store.list("state/other/"))) == 1
