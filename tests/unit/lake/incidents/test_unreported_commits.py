"""Cuts that became whole where nobody could tell are found in the chain, each once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from include.errors import LyrebirdError, Terminal, Transient
from include.lake.incidents.unreported_commits import UnreportedCuts
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.cut import Commit
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.planner import Range
from include.lake.writing.task import Outcome, Task

SPOT = TopicIdPartition("events", "id", 0)


def commit(first: int, until: int) -> Commit:
    return Commit(first, until, "0" * 32, 0, 0, 0, None, None, (), None, "c", {}, ())


class Chain:
    """Cuts of ten offsets, up to 100; may be away."""

    def __init__(self) -> None:
        self.fails: LyrebirdError | None = None
        self.heard: dict[str, int] = {}
        self.untold = UnreportedCuts(self.heard, "raw:", self.read)

    def read(self, _chain: ChainKey, since: int) -> Iterable[Commit]:
        for first in range(since, 100, 10):
            if first == 30 and self.fails is not None:
                raise self.fails
            yield commit(first, first + 10)

    def outcome(self, planned: int, head: int | None, *firsts: int, error: LyrebirdError | None = None) -> None:
        task = Task("raw", "raw", Range(SPOT, planned, 100, "age", ""), 1, 0, 100, 10, "w")
        commits = tuple(commit(first, first + 10) for first in firsts)
        self.untold.on_outcome(Outcome(task, head, commits, error))

    def found(self) -> list[int]:
        return [each.first for _, each in self.untold.found()]


def test_what_a_task_tells_is_not_looked_for() -> None:
    chain = Chain()
    chain.outcome(0, 20, 0, 10)
    chain.outcome(20, None, 20, error=Transient("lost"))
    chain.outcome(30, 40, 30)
    assert chain.found() == []
    assert chain.heard == {"raw:id/0": 40}


def test_what_lies_between_two_tasks_before_their_first_cut_and_behind_their_last_is_found_once() -> None:
    chain = Chain()
    chain.outcome(0, 10, 0)
    chain.outcome(10, None, error=Transient("its host was lost"))
    chain.outcome(30, 40, 30)
    assert chain.found() == [10, 20]
    assert chain.found() == []
    chain.outcome(40, 70, 50)
    assert chain.found() == [40, 60]


def test_a_chain_that_nobody_has_heard_of_begins_where_its_first_task_was_planned() -> None:
    chain = Chain()
    chain.outcome(50, 80, 70)
    assert chain.found() == [50, 60]


def test_what_cannot_be_read_now_is_read_later_from_where_it_stopped() -> None:
    chain = Chain()
    chain.outcome(0, 60)
    chain.fails = Transient("no answer")
    assert chain.found() == [0, 10, 20]
    assert chain.found() == []
    chain.fails = None
    assert chain.found() == [30, 40, 50]


def test_what_can_never_be_read_is_said_and_given_up(caplog: pytest.LogCaptureFixture) -> None:
    chain = Chain()
    chain.outcome(0, 60)
    chain.fails = Terminal("it is damaged")
    assert chain.found() == [0, 10, 20]
    chain.fails = None
    assert chain.found() == []
    assert "cannot be read from 30 to 60" in caplog.text
