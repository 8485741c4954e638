"""An application with its groups: it serves until it is asked to stop, or takes what is there and ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from include.errors import Terminal, Transient
from include.lake.host import GroupHost
from include.lake.incidents.incidents import LakeIncidents
from include.lake.protocol.cut import Commit, Gap
from include.lake.protocol.inventory import stored_topics
from include.lake.protocol.pointer import read_pointer
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.driver import Driver
from include.lake.writing.group_metrics import GroupMetrics
from include.lake.writing.planner import Range, TopicRecreated
from include.lake.writing.report import GroupReport
from include.lake.writing.task import Outcome, Task
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from tests.support.lake.harness import GROUP, LakeHarness


@pytest.fixture
def world(tmp_path: Path) -> LakeHarness:
    return LakeHarness(tmp_path / "local")


def hosted(world: LakeHarness, folder: Path, steps: int = 10_000) -> tuple[GroupHost, GroupReport]:
    """Asked to stop after so many looks at the clock."""
    report = GroupReport("raw")
    left = iter(range(steps))
    folder.mkdir(exist_ok=True)
    host = GroupHost(
        "lake", [(world.driver, report)], RunFolder(folder, world.clock), world.clock, lambda: next(left, None) is None
    )
    return host, report


def told(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "progress.json").read_text())["groups"]["raw"]
    return found


def test_it_serves_until_it_is_asked_and_tells_how_far_it_is(world: LakeHarness, tmp_path: Path) -> None:
    world.make("events", 2)
    world.write("events", 300)
    host, _ = hosted(world, tmp_path / "run", steps=2_000)
    world.watcher = host._hosted[0][1]
    host.serve()
    assert world.stored("events") == [(0, 200), (200, 301)]
    found = told(tmp_path / "run")
    assert (found["cuts"], found["records"], found["waiting"], found["failing"]) == (2, 300, 0, {})


def test_a_stop_waits_for_what_runs(world: LakeHarness, tmp_path: Path) -> None:
    world.make("events")
    world.write("events", 300)
    host, _ = hosted(world, tmp_path / "run", steps=1)
    host.serve()
    assert world.driver.planner.busy == 0
    assert world.stored("events") == [(0, 200)]


def test_a_run_on_a_schedule_takes_by_policy_or_all(world: LakeHarness, tmp_path: Path) -> None:
    world.make("events")
    world.write("events", 300)
    hosted(world, tmp_path / "run")[0].drain(flush=False)
    assert world.stored("events") == [(0, 200)]
    world.driver = world.started()
    hosted(world, tmp_path / "run")[0].drain(flush=True)
    assert world.stored("events") == [(0, 200), (200, 301)]


def test_a_run_on_a_schedule_notes_how_far_it_has_come(world: LakeHarness, tmp_path: Path) -> None:
    world.make("events")
    world.write("events", 300)
    hosted(world, tmp_path / "run")[0].drain(flush=True)
    (topic,) = stored_topics(world.store, "raw")
    assert read_pointer(world.store, topic).heads == {0: 301}


def test_a_run_that_leaves_something_standing_says_so(world: LakeHarness, tmp_path: Path) -> None:
    world.make("events", 2)
    world.write("events", 30)
    world.write("events", 30, 1)
    (info,) = world.topics()
    world.fails[TopicIdPartition("events", info.named_id, 0)] = Terminal("truncated")
    with pytest.raises(Terminal, match="not all of the log is stored"):
        hosted(world, tmp_path / "run")[0].drain(flush=True)
    assert world.stored("events", 1) == [(0, 31)]
    world.dead = True
    world.driver = world.started()
    with pytest.raises(Transient):
        hosted(world, tmp_path / "run")[0].drain(flush=True)


def test_a_report_counts_cuts_and_names_losses_and_logs_a_failure_once_until_it_passes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report = GroupReport("raw")
    tp = TopicIdPartition("events", "id", 3)
    task = Task("raw", "raw", Range(tp, 0, 9, "age", ""), 1, 0, 100, 10, "w")
    lost = Commit(5, 9, "0" * 32, 4, 1, 2, None, None, (Gap(5, 7, "lost"), Gap(7, 8, "before")), None, "c", {}, ())
    for _ in range(2):
        report.on_outcome(Outcome(task, None, (), Transient("away")))
    report.on_outcome(Outcome(task, 9, (lost,)))
    report.on_outcome(Outcome(task, None, (), Transient("away")))
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == ["raw: away"] * 2
    report.on_lost(TopicRecreated(tp, 9, 12))
    assert (report.cuts, report.records, report.filtered, report.quarantined) == (1, 4, 1, 2)
    assert report.lost == [
        "events/3: offsets 5 to 6: retention was faster",
        "events/3: offsets 9 to 11: the topic was deleted or made anew",
    ]
    report.on_away(Transient("the store is away"))
    assert report.away
    report.on_back()
    assert not report.away


def test_a_run_on_a_schedule_and_the_stream_take_over_from_each_other(world: LakeHarness, tmp_path: Path) -> None:
    world.make("events")
    world.write("events", 30)
    stream = world.driver
    for _ in range(3):
        stream.step()
    world.driver = world.started()
    hosted(world, tmp_path / "run")[0].drain(flush=True)
    assert world.stored("events") == [(0, 31)]
    world.write("events", 30)
    world.driver = stream
    world.run_for(70)
    # It had not heard of the other's cut, and found it in the chain.
    assert world.stored("events") == [(0, 31), (31, 62)]
    assert [outcome.error for outcome in world.outcomes] == [None] * len(world.outcomes)


def test_what_a_person_must_know_is_told_with_the_progress_and_kept_beside_it(
    world: LakeHarness, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path, world.clock)
    incidents = LakeIncidents("lake", folder, world.clock)
    watcher = incidents.of("raw", GROUP, lambda _chain, _since: (), world)
    world.make("events")
    world.write("events", 300)
    world.fails[TopicIdPartition("events", world.topics()[0].named_id, 0)] = Terminal("truncated")
    steps = iter(range(400))
    world.driver = Driver("raw", GROUP, world, world.store, world, world.clock, watcher, "here")
    metrics = Metrics("lake")
    hosted = [(world.driver, GroupReport("raw"))]
    shown = GroupMetrics(metrics, world.clock)
    host = GroupHost("lake", hosted, folder, world.clock, lambda: next(steps, None) is None, shown, incidents=incidents)
    host.serve()
    (told,) = json.loads((tmp_path / "progress.json").read_text())["incidents"]
    assert (told["kind"], told["group"]) == ("standing", "raw")
    assert set(told) == {"id", "kind", "group", "text", "fix", "severity", "page"}
    assert list(folder.kept("incidents.json")["open"]) == [told["id"].rpartition(":")[0]]
    assert 'lyrebird_incidents_total{application="lake",kind="standing"} 1' in metrics.text()
