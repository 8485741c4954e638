from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal, Transient
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.protocol.pointer import PointerEntry, ReadersPointer, change_pointer, ranges_of, read_pointer
from include.store.memory import MemoryStore

TOPIC = TopicKey("lake", "shop", "q2mGjA1dRHyJ8pAQ1gK9xw")


def begun() -> ReadersPointer:
    return ReadersPointer().reserve("release 1", "live").upgrade(1, {})


def test_the_first_writer_holds_everything() -> None:
    pointer = begun()
    assert pointer.generation_of(0, 0) == pointer.generation_of(99, 10**12) == 1
    assert pointer.live == PointerEntry(1, {}, others=True)
    assert pointer.live.start(5) == 0
    assert ReadersPointer().generation_of(0, 0) is None
    assert ReadersPointer().live is None


def test_an_upgrade_holds_what_comes_after_the_old_heads_and_new_partitions() -> None:
    pointer = begun().reserve("release 2", "live").upgrade(2, {0: 100, 1: 0})
    assert [pointer.generation_of(0, first) for first in (0, 99, 100, 10**9)] == [1, 1, 2, 2]
    assert pointer.generation_of(1, 0) == pointer.generation_of(2, 0) == 2
    assert pointer.live is not None
    assert [pointer.live.start(partition) for partition in (0, 1, 2)] == [100, 0, 0]


def test_an_upgrade_that_is_asked_for_again_keeps_its_first_heads() -> None:
    once = begun().reserve("release 2", "live").upgrade(2, {0: 100})
    assert once.reserve("release 2", "live").upgrade(2, {0: 250}) is once


def test_a_backfill_holds_its_cuts_alone_once_it_is_promoted() -> None:
    pointer = begun().reserve("release 2", "live").upgrade(2, {0: 100}).reserve("run 7", "backfill")
    assert pointer.reservation("run 7").generation == 3  # type: ignore[union-attr]
    assert pointer.generation_of(0, 50) == 1
    pointer = pointer.promote(3, {0: ((40, 60), (90, 100))}, replaces=1)
    generations = [pointer.generation_of(0, first) for first in (39, 40, 59, 60, 90, 99, 100, 120)]
    assert generations == [1, 3, 3, 1, 3, 3, 2, 2]
    assert pointer.generation_of(1, 50) == 2
    assert pointer.live is not None
    assert pointer.live.generation == 2
    chain = ChainKey(TOPIC, 3, 0)
    assert pointer.reads(chain.data(("dt=2026-11-21",), 40, ".seq"))
    assert not pointer.reads(chain.data(("dt=2026-11-21",), 39, ".seq"))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10), st.booleans()), max_size=8))
def test_the_newest_entry_that_holds_a_cut_names_its_generation(made: list[tuple[int, int, bool]]) -> None:
    pointer = begun()
    model, cuts_of = [1] * 60, [1] * 60
    for number, (first, length, upgrade) in enumerate(made):
        pointer = pointer.reserve(str(number), "live" if upgrade else "backfill")
        generation = pointer.reserved[-1].generation
        if upgrade:
            pointer = pointer.upgrade(generation, {0: first})
            end = 60
            cuts_of[first:] = [generation] * (60 - first)
        else:
            end = first + length
            replaced = set(cuts_of[first:end])
            if len(replaced) > 1:
                with pytest.raises(Terminal, match="not those of the generation"):
                    pointer.promote(generation, {0: ((first, end),)}, replaces=min(replaced))
                continue
            pointer = pointer.promote(generation, {0: ((first, end),)}, replaces=min(replaced))
        model[first:end] = [generation] * (end - first)
    assert [pointer.generation_of(0, first) for first in range(60)] == model
    assert ReadersPointer.parse(pointer.to_bytes(), TOPIC) == pointer


def test_numbers_are_given_once_to_each_who_asks() -> None:
    pointer = begun().reserve("a", "backfill").reserve("b", "live").reserve("a", "backfill")
    assert [(each.generation, each.by) for each in pointer.reserved] == [(1, "release 1"), (2, "a"), (3, "b")]


def test_a_topic_made_anew_goes_on_after_the_generations_of_the_old_one() -> None:
    assert ReadersPointer().reserve("release 1", "live", least=4).reserved[0].generation == 4


def test_an_entry_needs_its_number_and_never_changes() -> None:
    with pytest.raises(Terminal, match="nobody reserved"):
        begun().promote(2, {0: ((0, 5),)}, replaces=1)
    pointer = begun().reserve("run 7", "backfill").promote(2, {0: ((0, 5),)}, replaces=1)
    assert pointer.promote(2, {0: ((0, 5),)}, replaces=1) is pointer
    with pytest.raises(Terminal, match="has its entry already"):
        pointer.promote(2, {0: ((0, 6),)}, replaces=1)


@pytest.mark.parametrize("cuts", [((20, 50),), ((30, 50),), ((0, 10), (20, 31)), ((0, None),)])
def test_a_backfill_of_cuts_that_live_has_left_is_not_promoted(cuts: Any) -> None:
    pointer = begun().reserve("run 7", "backfill").reserve("release 3", "live").upgrade(3, {0: 30})
    with pytest.raises(Terminal, match="not those of the generation"):
        pointer.promote(2, {0: cuts}, replaces=1)
    assert pointer.promote(2, {0: ((0, 10), (20, 30))}, replaces=1).generation_of(0, 25) == 2


@pytest.mark.parametrize("ranges", [((5, 5),), ((5, 4),), ((0, 5), (5, 6)), ((0, None), (9, 10)), ((-1, 5),)])
def test_ranges_that_are_empty_touch_or_are_out_of_order_are_refused(ranges: Any) -> None:
    with pytest.raises(ValueError, match="not sorted and apart"):
        PointerEntry(2, {0: ranges})


def commit(first: int, until: int) -> Commit:
    return Commit(first, until, "0" * 32, 0, 0, 0, None, None, (), None, "c", {}, ())


def test_cuts_of_a_backfill_become_ranges() -> None:
    assert ranges_of([commit(5, 9), commit(20, 30), commit(9, 12)]) == ((5, 12), (20, 30))
    assert ranges_of([]) == ()


class Unsure(MemoryStore):
    """Answers nothing to some puts, after doing them or not; others may get in between."""

    def __init__(self) -> None:
        super().__init__()
        self.next: list[str] = []
        self.between: Callable[[], object] | None = None

    def put_if_absent(self, key: str, body: bytes, *, metadata: Any = None) -> Any:
        return self._unsure(lambda: super(Unsure, self).put_if_absent(key, body))

    def put_if_match(self, key: str, body: bytes, etag: str, *, metadata: Any = None) -> Any:
        return self._unsure(lambda: super(Unsure, self).put_if_match(key, body, etag))

    def _unsure(self, put: Callable[[], Any]) -> Any:
        between, self.between = self.between, None
        if between:
            between()
        how = self.next.pop(0) if self.next else "answers"
        made = put() if how != "lost before" else None
        if how != "answers":
            raise Transient("no answer", system="s3")
        return made


def reserve(by: str) -> Callable[[ReadersPointer], ReadersPointer]:
    return lambda pointer: pointer.reserve(by, "live")


def test_a_change_whose_answer_was_lost_is_found_to_be_made() -> None:
    store = Unsure()
    store.next = ["lost after"]
    assert change_pointer(store, TOPIC, reserve("a")).reserved[0].by == "a"
    store.next = ["lost after"]
    assert len(change_pointer(store, TOPIC, reserve("b")).reserved) == 2
    assert change_pointer(store, TOPIC, reserve("b")) == read_pointer(store, TOPIC)


def test_a_change_that_got_lost_is_the_callers_to_ask_for_again() -> None:
    store = Unsure()
    store.next = ["lost before"]
    with pytest.raises(Transient):
        change_pointer(store, TOPIC, reserve("a"))
    assert read_pointer(store, TOPIC) == ReadersPointer()
    assert len(change_pointer(store, TOPIC, reserve("a")).reserved) == 1


@pytest.mark.parametrize("there", [False, True])
def test_two_who_change_at_once_both_get_what_they_want(there: bool) -> None:
    store = Unsure()
    if there:
        change_pointer(store, TOPIC, reserve("before"))
    store.between = lambda: change_pointer(store, TOPIC, reserve("other"))
    numbers = {each.by: each.generation for each in change_pointer(store, TOPIC, reserve("mine")).reserved}
    assert numbers["mine"] == numbers["other"] + 1
    assert len(set(numbers.values())) == len(numbers)


def test_a_pointer_that_never_rests_is_told() -> None:
    class Restless(MemoryStore):
        def put_if_absent(self, key: str, body: bytes, *, metadata: Any = None) -> Any:
            return None

    with pytest.raises(Terminal, match="changes all the time"):
        change_pointer(Restless(), TOPIC, reserve("a"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("entries", [{"generation": 1, "cuts": {}}]),
        ("entries", [{"generation": 1, "cuts": {}, "others": 1}]),
        ("entries", [{"generation": 1, "cuts": {"00": []}, "others": True}]),
        ("entries", [{"generation": 1, "cuts": {"0": [[5, 4]]}, "others": True}]),
        ("entries", 5),
        ("reserved", [{"generation": 1, "by": "x", "purpose": "fun"}]),
        ("reserved", [{"generation": 1, "by": "x"}]),
    ],
)
def test_a_pointer_that_is_none_is_refused_by_its_key(field: str, value: Any) -> None:
    body = json.loads(begun().to_bytes()) | {field: value}
    with pytest.raises(Terminal, match=TOPIC.pointer):
        ReadersPointer.parse(json.dumps(body, sort_keys=True, separators=(",", ":")).encode(), TOPIC)
