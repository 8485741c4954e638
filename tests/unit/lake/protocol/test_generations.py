"""Revisions of a group take a topic over from one another; readers see each cut in one generation alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Fenced, Transient
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.generations import LiveGeneration, least_generation, lives, take_over
from include.lake.protocol.pointer import read_pointer
from include.store.memory import MemoryStore

TOPIC = TopicKey("lake/raw", "events", "id1")
HEADS = {(1, 0): 40, (1, 1): 70, (2, 0): 60, (2, 1): 90, (2, 2): 5}


def heads_of(chains: Mapping[ChainKey, int]) -> dict[ChainKey, int]:
    return {chain: max(start, HEADS.get((chain.generation, chain.partition), 0)) for chain, start in chains.items()}


def taken(store: MemoryStore, revision: int, partitions: int = 2) -> LiveGeneration:
    return take_over(store, TOPIC, revision, partitions, heads_of)


def test_the_first_writer_has_everything_and_finds_itself_again() -> None:
    store = MemoryStore()
    first = taken(store, 1)
    assert (first.generation, first.start(0), first.start(7)) == (1, 0, 0)
    assert taken(store, 1) == first


def test_a_newer_revision_begins_at_the_heads_and_new_partitions_at_their_beginning() -> None:
    store = MemoryStore()
    taken(store, 1)
    second = taken(store, 2)
    assert (second.generation, [second.start(p) for p in range(3)]) == (2, [40, 70, 0])
    third = taken(store, 5, 3)
    assert (third.generation, [third.start(p) for p in range(4)]) == (3, [60, 90, 5, 0])
    pointer = read_pointer(store, TOPIC)
    assert [pointer.generation_of(0, first) for first in (0, 39, 40, 59, 60)] == [1, 1, 2, 2, 3]
    assert [pointer.generation_of(2, first) for first in (0, 4, 5)] == [2, 2, 3]


def test_an_older_revision_is_told_that_it_is_over() -> None:
    store = MemoryStore()
    taken(store, 1)
    taken(store, 2)
    with pytest.raises(Fenced, match="newer revision"):
        taken(store, 1)


def test_a_topic_made_anew_takes_numbers_that_no_life_of_it_has() -> None:
    store = MemoryStore()
    taken(store, 1)
    taken(store, 2)
    store.put("lake/raw/_chain/events~id1/1/0/x", b"")
    store.put("lake/raw/_chain/events.more~id9/current", b"")
    again = TopicKey("lake/raw", "events", "id2")
    assert least_generation(store, again) == 3
    assert take_over(store, again, 2, 2, heads_of).generation == 3
    assert list(lives(store, "lake/raw", "events")) == [TOPIC, again]


@given(st.data())
def test_a_crash_at_any_call_of_the_store_leaves_what_the_next_one_completes(data: st.DataObject) -> None:
    store = MemoryStore()
    taken(store, 1)
    calls = data.draw(st.integers(1, 8))

    class Crashing(MemoryStore):
        """Answers so many calls, then none."""

        def __init__(self) -> None:
            super().__init__()
            self._objects, self.left = store._objects, calls

        def __getattribute__(self, name: str) -> object:
            if name in {"get", "put_if_absent", "put_if_match", "list"}:
                self.left -= 1
                if self.left < 0:
                    raise Transient("crash")
            return super().__getattribute__(name)

    with suppress(Transient):
        take_over(Crashing(), TOPIC, 2, 2, heads_of)
    second = taken(store, 2)
    assert (second.generation, second.start(0), second.start(1)) == (2, 40, 70)
    assert len(read_pointer(store, TOPIC).entries) == 2
