"""Heads as committed offsets for lag tools: what moved, one commit at a time, and no harm where Kafka refuses."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from include.errors import LyrebirdError, Transient
from include.lake.host import GroupHost
from include.lake.writing.lag_offsets import LagOffsets, consumer_group
from include.lake.writing.report import GroupReport
from include.metrics.progress import RunFolder
from tests.support.lake.harness import LakeHarness


class Committed:
    """A consumer group that answers when it is asked, as well or badly as it is told to."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, int], int] = {}
        self.sent: list[dict[tuple[str, int], int]] = []
        self.silent = self.closed = False
        self.fails = self.refuses = False

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        if self.refuses:
            raise Transient("no room")
        self.sent.append(dict(offsets))

    def answers(self) -> list[LyrebirdError | None]:
        if self.silent or not self.sent or len(self.sent) == getattr(self, "answered", 0):
            return []
        self.answered = len(self.sent)
        if self.fails:
            return [Transient("away")]
        self.offsets |= self.sent[-1]
        return [None]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def world(tmp_path: Path) -> LakeHarness:
    made = LakeHarness(tmp_path / "local")
    made.make("events", 2)
    made.write("events", 300)
    return made


def test_heads_are_committed_as_they_move_and_only_then(world: LakeHarness) -> None:
    kafka, report = Committed(), GroupReport("raw")
    lag = LagOffsets(kafka, world.clock)
    lag.show(report, world.driver.planner)
    assert kafka.sent == []
    world.run_for(5)
    lag.show(report, world.driver.planner)
    lag.show(report, world.driver.planner)
    assert kafka.sent == [{("events", 0): 200, ("events", 1): 0}]
    world.run_for(70)
    lag.show(report, world.driver.planner)
    assert kafka.sent[1:] == [{("events", 0): 301}]


def test_a_commit_without_an_answer_is_waited_for(world: LakeHarness) -> None:
    kafka, report = Committed(), GroupReport("raw")
    lag = LagOffsets(kafka, world.clock)
    kafka.silent = True
    world.run_for(5)
    lag.show(report, world.driver.planner)
    world.run_for(70)
    lag.show(report, world.driver.planner)
    assert len(kafka.sent) == 1
    kafka.silent = False
    lag.show(report, world.driver.planner)
    assert kafka.sent[-1] == {("events", 0): 301}


@pytest.mark.parametrize("way", ["fails", "refuses"])
def test_failures_are_counted_logged_once_and_made_good(
    world: LakeHarness, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka, report = Committed(), GroupReport("raw")
    lag = LagOffsets(kafka, world.clock)
    setattr(kafka, way, True)
    world.run_for(5)
    with caplog.at_level(logging.WARNING, "lyrebird.lake"):
        for _ in range(4):
            lag.show(report, world.driver.planner)
    assert report.offset_failures >= 3
    assert len(caplog.records) == 1
    setattr(kafka, way, False)
    lag.show(report, world.driver.planner)
    lag.show(report, world.driver.planner)
    assert kafka.offsets == {("events", 0): 200, ("events", 1): 0}
    assert report.to_json(world.driver.planner)["offset_failures"] == report.offset_failures


@pytest.mark.parametrize("answers", [True, False])
def test_an_application_ends_with_its_last_heads_shown_and_does_not_wait_for_ever(
    world: LakeHarness, tmp_path: Path, *, answers: bool
) -> None:
    kafka, report = Committed(), GroupReport("raw")
    kafka.silent = not answers
    (tmp_path / "run").mkdir()
    host = GroupHost(
        "lake",
        [(world.driver, report)],
        RunFolder(tmp_path / "run", world.clock),
        world.clock,
        lambda: False,
        lag={"raw": LagOffsets(kafka, world.clock)},
    )
    host.drain(flush=True)
    assert world.stored("events") == [(0, 200), (200, 301)]
    assert kafka.closed
    assert kafka.offsets == ({("events", 0): 301, ("events", 1): 0} if answers else {})


def test_nothing_reads_them_back(world: LakeHarness) -> None:
    writer = world.memory.writer("elsewhere")
    writer.begin()
    writer.commit(consumer_group("raw"), {("events", 0): 250})
    world.run_for(80)
    assert world.stored("events") == [(0, 200), (200, 301)]
