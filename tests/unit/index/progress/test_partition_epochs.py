"""Versions from places in the log, through growth of a topic: the later state of a key always has the greater one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import SettingsError, Terminal
from include.index.feed import PartitionNumber
from include.index.progress.partition_epochs import PartitionEpochs, known_numbers
from include.record.key import partition_of
from include.record.version import epoch_of


class GrowingTopic:
    """Assigns places as producers do; remembers the order in which each key was written."""

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self.written: dict[bytes, list[tuple[int, int]]] = {}
        self.numbers: list[PartitionNumber] = []

    def grow(self, number: int) -> None:
        if self.numbers:
            self.numbers[-1] = PartitionNumber(self.numbers[-1].number, dict(self.ends))
        self.numbers.append(PartitionNumber(number))

    def write(self, key: bytes) -> None:
        p = partition_of(key, self.numbers[-1].number)
        offset = self.ends.get(p, 0)
        self.ends[p] = offset + 1
        self.written.setdefault(key, []).append((p, offset))

    def versions(self, numbers: list[PartitionNumber] | None = None) -> dict[bytes, list[int]]:
        epochs = PartitionEpochs("t", 1, self.numbers if numbers is None else numbers)
        return {key: [epochs.version(key, p, offset) for p, offset in at] for key, at in self.written.items()}


KEYS = st.lists(st.integers(0, 40).map(lambda n: b"k%d" % n), max_size=60)


@settings(max_examples=200, deadline=None)
@given(st.lists(KEYS, min_size=1, max_size=4), st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_each_later_record_of_a_key_has_a_greater_version_whenever_the_topic_grew(
    phases: list[list[bytes]], steps: list[int]
) -> None:
    topic = GrowingTopic()
    for keys, number in zip(phases, itertools.accumulate(steps), strict=False):
        topic.grow(number)
        for key in keys:
            topic.write(key)
    for versions in topic.versions().values():
        assert versions == sorted(set(versions))


def test_numbers_that_are_declared_and_not_seen_explain_keys_that_were_there_before() -> None:
    topic = GrowingTopic()
    for number in (3, 7):
        topic.grow(number)
        for n in range(50):
            topic.write(b"k%d" % n)
    declared = list(known_numbers([3, 7], []))
    for versions in topic.versions(declared).values():
        assert versions == sorted(set(versions))


def test_a_key_that_no_known_number_explains_is_named_with_what_to_declare() -> None:
    topic = GrowingTopic()
    topic.grow(3)
    for n in range(50):
        topic.write(b"k%d" % n)
    with pytest.raises(Terminal, match=r"partitions: \[3, 7\].*partitioner: any") as caught:
        topic.versions([PartitionNumber(7)])
    assert caught.value.details["known"] == [7]


def test_a_late_producer_that_counts_by_the_old_number_writes_an_older_state() -> None:
    key = next(k for k in (b"k%d" % n for n in range(99)) if partition_of(k, 3) != partition_of(k, 7))
    epochs = PartitionEpochs("t", 1, [PartitionNumber(3, dict.fromkeys(range(3), 10)), PartitionNumber(7)])
    assert epochs.version(key, partition_of(key, 3), 500) < epochs.version(key, partition_of(key, 7), 0)


def test_a_key_that_came_back_to_a_partition_is_told_apart_by_the_end_it_had_and_refused_without_it() -> None:
    back = next(
        k for k in (b"k%d" % n for n in range(999)) if partition_of(k, 3) == partition_of(k, 9) != partition_of(k, 7)
    )
    p = partition_of(back, 3)
    known = [PartitionNumber(3, {p: 10}), PartitionNumber(7), PartitionNumber(9)]
    epochs = PartitionEpochs("t", 1, known)
    assert epochs.version(back, p, 9) < epochs.version(back, partition_of(back, 7), 0) < epochs.version(back, p, 10)
    with pytest.raises(Terminal, match="left it and came back"):
        PartitionEpochs("t", 1, known_numbers([3, 7, 9], [])).version(back, p, 9)


def test_a_growth_that_nobody_saw_makes_no_older_state_win() -> None:
    """3 → 5 → 7, of which only 7 was seen, after records had come back to where they were at first."""
    topic = GrowingTopic()
    for number in (3, 5, 7):
        topic.grow(number)
        for n in range(200):
            topic.write(b"k%d" % n)
    noticed = [PartitionNumber(3, dict(topic.ends)), PartitionNumber(7)]
    numbers = known_numbers([3, 5, 7], noticed)
    assert [each.number for each in numbers] == [3, 5, 7]
    epochs = PartitionEpochs("t", 1, numbers)
    back = {key for key in topic.written if partition_of(key, 3) == partition_of(key, 7) != partition_of(key, 5)}
    assert len(topic.written) > len(back) > 0
    for key, places in topic.written.items():
        if key in back:
            with pytest.raises(Terminal, match="left it and came back"):
                epochs.version(key, *places[-1])
        else:
            versions = [epochs.version(key, *at) for at in places]
            assert versions == sorted(versions)


def test_versions_stay_what_they_are_when_the_topic_grows_again() -> None:
    topic = GrowingTopic()
    for number in (3, 6, 12):
        topic.grow(number)
        for n in range(60):
            topic.write(b"k%d" % n)
    before = topic.versions()
    topic.grow(24)
    assert topic.versions() == before


def test_a_raised_generation_wins_over_every_offset_before() -> None:
    assert PartitionEpochs("t", 2).version(None, 0, 0) > PartitionEpochs("t", 1).version(None, 3, (1 << 40) - 1)
    assert epoch_of(PartitionEpochs("t", 2).version(None, 0, 7)) == 2


def test_an_offset_that_does_not_fit_is_refused() -> None:
    with pytest.raises(Terminal, match="does not fit"):
        PartitionEpochs("t", 1).version(None, 0, 1 << 40)


def test_numbers_come_from_the_declaration_and_from_what_was_seen() -> None:
    seen = PartitionNumber(7, {0: 5})
    assert known_numbers([3, 7], [seen, PartitionNumber(9)]) == (PartitionNumber(3), seen, PartitionNumber(9))
    for wrong in ([7, 3], [3, 3], [0, 1]):
        with pytest.raises(SettingsError, match="only grow"):
            known_numbers(wrong, [])


def test_a_topic_may_grow_fifteen_times() -> None:
    with pytest.raises(Terminal, match="too often"):
        PartitionEpochs("t", 1, [PartitionNumber(n) for n in range(1, 18)])
