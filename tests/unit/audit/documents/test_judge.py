"""Documents are called wrong only for good: whatever changes while they are looked at, on a replica too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.audit.documents.judge import DocumentBody, DocumentDifference, JudgedKeys, NewestRecord, differing, judged
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition

pytestmark = pytest.mark.unit


def at(number: int) -> SourcePosition:
    return SourcePosition("mariadb", MariadbGtidSet.parse(f"0-1-{number}"), BinlogPosition("b.1", number), number)


@dataclass
class Harness:
    """Transactions, each of one key's document; `wrong` is what the topic has of keys for ever.

    Time goes on by itself: `moves` says for each read how many transactions came before it, and how far behind what is
    shown may be (a replica; the topic speaks for what it was asked at least).
    """

    changes: list[tuple[str, int | None]]
    moves: list[tuple[int, int]]
    wrong: Mapping[str, int | None] = field(default_factory=dict)
    now: int = 0
    spoken: int = 0

    def _go_on(self) -> int:
        step, behind = self.moves.pop(0) if self.moves else (0, 0)
        self.now = min(len(self.changes), self.now + step)
        return behind

    def _of(self, number: int) -> dict[str, tuple[int, DocumentBody | None]]:
        return {k: (n, None if v is None else {"v": v}) for n, (k, v) in enumerate(self.changes[:number])}

    def documents(self, keys: Collection[str]) -> tuple[SourcePosition, Mapping[str, DocumentBody | None]]:
        behind = self._go_on()
        shown = max(self.spoken, self.now - behind)
        found = self._of(shown)
        self._go_on()
        return at(self.now), {key: found.get(key, (0, None))[1] for key in keys}

    def newest(self, keys: Collection[str], position: SourcePosition) -> Mapping[str, NewestRecord]:
        self._go_on()
        number = max(position.commit_us, self.now - 1)
        self.spoken = number
        found = {key: NewestRecord(*each) for key, each in self._of(number).items() if key in keys}
        for key in self.wrong.keys() & set(keys):
            value = self.wrong[key]
            found[key] = NewestRecord(found.get(key, NewestRecord()).version, None if value is None else {"v": value})
        return found


KEYS = st.sampled_from("abc")
VALUES = st.none() | st.integers(0, 2)
CHANGES = st.lists(st.tuples(KEYS, VALUES), max_size=25)
MOVES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40)


@given(CHANGES, MOVES)
def test_a_topic_that_follows_is_never_called_wrong(
    changes: list[tuple[str, int | None]], moves: list[tuple[int, int]]
) -> None:
    world = Harness(changes, moves)
    assert judged("abc", world, world).wrong == []


@given(CHANGES, st.dictionaries(KEYS, VALUES, min_size=1))
def test_what_is_wrong_for_good_is_found_with_its_kind(
    changes: list[tuple[str, int | None]], wrong: dict[str, int | None]
) -> None:
    world = Harness(changes, [(len(changes), 0)], wrong)
    true = dict(changes)
    expected = {}
    for key, value in wrong.items():
        if value != true.get(key):
            expected[key] = "extra" if true.get(key) is None else "missing" if value is None else "altered"
    found = judged("abc", world, world)
    assert {each.key: each.kind for each in found.wrong} == expected
    assert all(each.fields == (("v",) if each.kind == "altered" else ()) for each in found.wrong)
    assert (found.unsure, found.unknown) == ([], [])


def test_a_document_that_never_keeps_still_is_said_to_be_unsure_and_one_that_nobody_can_make_unknown() -> None:
    class Restless(Harness):
        def documents(self, keys: Collection[str]) -> tuple[SourcePosition, Mapping[str, DocumentBody | None]]:
            position, found = super().documents(keys)
            return position, {key: body for key, body in found.items() if key != "b"}

    # The topic is wrong about it all the time, and another change comes in each round.
    world = Restless([("a", n % 2) for n in range(100)], [(1, 0)] * 100, {"a": 7})
    assert judged("ab", world, world) == JudgedKeys([], ["a"], ["b"])


def test_fields_are_named_within_objects() -> None:
    here = {"a": 1, "o": {"x": 1, "y": {"z": 2}}, "l": [1, 2]}
    there = {"a": 1, "o": {"x": 2, "y": {}}, "l": [1], "m": 0}
    assert list(differing(here, there)) == ["l", "m", "o.x", "o.y.z"]
    assert DocumentDifference("altered", "k", ("l",)) != DocumentDifference("altered", "k")
