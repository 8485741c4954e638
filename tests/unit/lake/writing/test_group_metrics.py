"""What a group shows of itself: counts since the start, and how much waits for how long."""

from __future__ import annotations

from pathlib import Path

from include.lake.writing.group_metrics import GroupMetrics
from include.lake.writing.report import GroupReport
from include.metrics.exporter import Metrics
from tests.support.lake.harness import LakeHarness


def shown(metrics: Metrics, name: str) -> float:
    labels = f'{name}{{application="a",kind="raw"}} '
    return next(float(line.removeprefix(labels)) for line in metrics.text().splitlines() if line.startswith(labels))


def test_counts_go_on_and_are_not_counted_twice(tmp_path: Path) -> None:
    world, metrics = LakeHarness(tmp_path), Metrics("a")
    world.watcher = report = GroupReport("raw")
    group = GroupMetrics(metrics, world.clock)
    world.make("events")
    world.write("events", 300)
    world.run_for(5)
    group.show(report, world.driver.planner)
    group.show(report, world.driver.planner)
    assert shown(metrics, "lyrebird_cuts_total") == 1
    assert shown(metrics, "lyrebird_rows_total") == 200
    world.run_for(70)
    group.show(report, world.driver.planner)
    assert shown(metrics, "lyrebird_cuts_total") == 2
    assert shown(metrics, "lyrebird_rows_total") == 300
    assert shown(metrics, "lyrebird_stored_bytes_total") == report.bytes > 0


def test_what_waits_is_shown_with_its_age_until_it_is_stored(tmp_path: Path) -> None:
    world, metrics = LakeHarness(tmp_path), Metrics("a")
    group, report = GroupMetrics(metrics, world.clock), GroupReport("raw")
    world.make("events")
    world.write("events", 30)
    world.run_for(20)
    group.show(report, world.driver.planner)
    assert shown(metrics, "lyrebird_lag_records") == 31
    assert 15 <= shown(metrics, "lyrebird_lag_seconds") <= 20
    world.run_for(60)
    group.show(report, world.driver.planner)
    assert (shown(metrics, "lyrebird_lag_records"), shown(metrics, "lyrebird_lag_seconds")) == (0, 0)


def test_a_report_is_a_line_for_a_person() -> None:
    assert str(GroupReport("raw")) == "raw: 0 cuts with 0 records in 0 bytes"
    report = GroupReport("raw", cuts=2, records=3, bytes=400, quarantined=1, lost=["events/0: offsets 1 to 2: gone"])
    assert str(report) == "raw: 2 cuts with 3 records in 400 bytes, set aside: 1, ranges lost: 1"
