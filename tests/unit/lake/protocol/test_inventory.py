"""What a bucket has of a group, found without walking a chain."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.protocol.inventory import BegunCut, chain_head, cut_at, stored_partitions, stored_topics
from include.lake.protocol.pointer import PointerEntry, ReadersPointer, Reservation
from include.lake.protocol.read_cuts import read_cuts, read_partitions
from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo

TOPIC = TopicKey("raw", "events", "id1")
CHAIN = ChainKey(TOPIC, 1, 0)


class Counting(MemoryStore):
    """Counts listings, and the keys that were taken of them."""

    listings = keys = 0

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        self.listings += 1
        for info in super().list(prefix, start_after=start_after):
            self.keys += 1
            yield info


def commit(first: int, until: int) -> Commit:
    return Commit(first, until, "0" * 32, 0, 0, 0, None, None, (), None, "c", {}, ())


def stored(firsts: list[int], chain: ChainKey = CHAIN, *, last: int | None = None) -> Counting:
    store = Counting()
    for first, until in zip(firsts, [*firsts[1:], last or firsts[-1] + 10], strict=True):
        put(store, chain, first, until)
    return store


def put(store: MemoryStore, chain: ChainKey, first: int, until: int) -> None:
    store.put(chain.commit(first), commit(first, until).to_bytes())
    store.put(chain.intent(first), b"{}")


@given(firsts=st.sets(st.integers(0, 10**7), min_size=1, max_size=30), offset=st.integers(0, 10**7))
def test_the_cut_of_an_offset_is_the_last_that_begins_at_it_or_before(firsts: set[int], offset: int) -> None:
    ascending = sorted(firsts)
    at = bisect.bisect_right(ascending, offset) - 1
    expected = BegunCut(ascending[at], committed=True) if at >= 0 else None
    assert cut_at(stored(ascending), CHAIN, offset) == expected


def test_a_cut_is_found_by_few_listings_in_a_long_chain() -> None:
    store = stored(list(range(0, 4_000_000, 1000)))
    assert cut_at(store, CHAIN, 3_500_500) == BegunCut(3_500_000, committed=True)
    assert (store.listings, store.keys < 20) == (1, True)
    far = 1_000_000_000_000
    put(store, CHAIN, far, far + 10**11)
    before = store.listings
    assert cut_at(store, CHAIN, far + 10**11 - 1) == BegunCut(far, committed=True)
    assert store.listings - before < 10


@given(
    firsts=st.sets(st.integers(0, 3000) | st.integers(0, 10**9), min_size=1, max_size=40),
    offset=st.integers(0, 3100) | st.integers(0, 10**10),
    page=st.integers(1, 9),
    begun=st.booleans(),
)
def test_pages_of_any_size_show_the_same_cut(firsts: set[int], offset: int, page: int, begun: bool) -> None:
    ascending = sorted(firsts)
    store = stored(ascending)
    at = bisect.bisect_right(ascending, offset) - 1
    expected = BegunCut(ascending[at], committed=not (begun and at == len(ascending) - 1)) if at >= 0 else None
    if begun:
        store.delete(CHAIN.commit(ascending[-1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("include.lake.protocol.inventory._PAGE", page)
        assert cut_at(store, CHAIN, offset) == expected


def test_an_offset_far_behind_a_long_chain_takes_few_pages() -> None:
    store = stored(list(range(0, 4_000_000, 1000)))
    assert cut_at(store, CHAIN, 10**15) == BegunCut(3_999_000, committed=True)
    assert store.listings < 60
    assert store.keys <= 1000 * 20


def test_an_intent_alone_is_a_cut_that_is_not_committed() -> None:
    store = stored([0, 10])
    store.put(CHAIN.intent(20), b"{}")
    assert cut_at(store, CHAIN, 25) == BegunCut(20, committed=False)
    assert cut_at(store, CHAIN, 19) == BegunCut(10, committed=True)


def test_the_head_is_that_of_the_chain_and_nothing_is_written() -> None:
    store = stored(list(range(0, 10_000, 10)))
    before = {info.key for info in store.list("")}
    head = chain_head(store, CHAIN, 0)
    assert {info.key for info in store.list("")} == before
    assert head == Chain(store, CHAIN).head()
    assert head.next == 10_000
    store.put(CHAIN.hint, b"no hint")
    assert chain_head(store, CHAIN, 0).next == 10_000
    assert chain_head(store, ChainKey(TOPIC, 2, 0), 70).next == 70


@given(
    firsts=st.sets(st.integers(0, 10**6), max_size=20),
    near=st.integers(0, 2 * 10**6),
    begun=st.booleans(),
)
def test_the_head_is_the_same_wherever_it_is_looked_for(firsts: set[int], near: int, begun: bool) -> None:
    ascending = sorted({0, *firsts})
    store = stored(ascending, last=ascending[-1] + 7)
    if begun:
        store.put(CHAIN.intent(ascending[-1] + 7), b"{}")
    head = chain_head(store, CHAIN, 0, near=near)
    expected = Chain(store, CHAIN).head()
    assert (head.next, head.last, head.unfinished) == (expected.next, expected.last, expected.unfinished)


def test_an_intent_alone_at_the_beginning_is_no_head() -> None:
    store = MemoryStore()
    store.put(CHAIN.intent(0), b"{}")
    head = chain_head(store, CHAIN, 0, near=5)
    assert (head.next, head.last, head.unfinished) == (0, None, True)


def test_topics_and_partitions_are_found_whatever_lies_beside_them() -> None:
    store = MemoryStore()
    names = [("events", "id1"), ("events", "id2"), ("events-2", "x"), ("events.dlq", "y")]
    for topic, topic_id in names:
        key = TopicKey("raw", topic, topic_id)
        store.put(key.pointer, b"{}")
        for partition in (0, 2, 10):
            store.put(ChainKey(key, 1, partition).commit(5), b"{}")
        store.put(ChainKey(key, 1, 7).hint, b"{}")
        store.put(ChainKey(key, 1, 8).summary(0), b"{}")
        store.put(ChainKey(key, 2, 4).intent(0), b"{}")
    store.put("raw/events/offset=0/1_0_00000000000000000005", b"")
    store.put("rawer/_chain/other~z/current", b"")
    assert sorted((key.topic, key.topic_id) for key in stored_topics(store, "raw")) == names
    assert stored_partitions(store, TOPIC, 1) == [0, 2, 10]
    assert stored_partitions(store, TOPIC, 2) == [4]
    assert stored_partitions(store, TOPIC, 3) == []


def pointer(*entries: PointerEntry) -> ReadersPointer:
    reserved = tuple(Reservation(each.generation, f"revision {each.generation}", "live") for each in entries)
    return ReadersPointer(entries, reserved)


def test_readers_see_each_offset_in_one_generation() -> None:
    store = stored([0, 10, 20, 30, 40])
    # Behind the head of generation 2 nobody reads what the old one still writes.
    second, third = ChainKey(TOPIC, 2, 0), ChainKey(TOPIC, 3, 0)
    for first in (30, 45, 60):
        put(store, second, first, first + 15)
    put(store, third, 10, 20)
    put(store, third, 45, 60)
    found = pointer(
        PointerEntry(1, {}, others=True),
        PointerEntry(2, {0: ((30, None),)}, others=True),
        PointerEntry(3, {0: ((10, 20), (45, 60))}),
    )
    cuts = list(read_cuts(store, TOPIC, found, 0))
    read = [(cut.chain.generation, cut.commit.first, cut.commit.next) for cut in cuts]
    assert read == [(1, 0, 10), (3, 10, 20), (1, 20, 30), (2, 30, 45), (3, 45, 60), (2, 60, 75)]
    assert [cut.commit.first for cut in read_cuts(store, TOPIC, found, 0, 46)] == [45, 60]
    assert read_partitions(store, TOPIC, found) == [0]


def test_a_hole_is_never_passed_over() -> None:
    store = stored([0, 10, 20])
    whole = pointer(PointerEntry(1, {}, others=True))
    store.delete(CHAIN.commit(10))
    store.delete(CHAIN.intent(10))
    with pytest.raises(Terminal, match=r"missing.*lyrebird audit chain events") as refused:
        list(read_cuts(store, TOPIC, whole, 0))
    assert (refused.value.details["after"], refused.value.details["before"]) == (10, 20)
    with pytest.raises(Terminal, match="missing"):
        list(read_cuts(store, TOPIC, whole, 0, 15))
    assert len(list(read_cuts(store, TOPIC, whole, 0, 20))) == 1
