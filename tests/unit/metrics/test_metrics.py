"""What a process shows of itself."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from include.clock import ManualClock
from include.metrics import progress
from include.metrics.exporter import Metrics, write_atomically
from include.metrics.names import COUNTERS, GAUGES, HELP
from include.metrics.progress import RunFolder


def test_every_name_says_what_a_high_value_means_and_is_shown_as_named() -> None:
    metrics = Metrics("app")
    for counter in COUNTERS:
        metrics.count(counter)  # type: ignore[arg-type]
    for gauge in GAUGES:
        metrics.set(gauge, 1)  # type: ignore[arg-type]
    shown = metrics.text()
    assert sorted(HELP) == sorted((*COUNTERS, *GAUGES))
    for name in HELP:
        assert f'{name}{{application="app",kind=""}} 1.0' in shown


def test_counts_add_up_by_kind_and_gauges_keep_the_last() -> None:
    metrics = Metrics("app")
    metrics.count("lyrebird_rows_total", 2, kind="orders")
    metrics.count("lyrebird_rows_total", 3, kind="orders")
    metrics.set("lyrebird_lag_seconds", 5)
    metrics.set("lyrebird_lag_seconds", 0.5)
    assert 'lyrebird_rows_total{application="app",kind="orders"} 5.0' in metrics.text()
    assert 'lyrebird_lag_seconds{application="app",kind=""} 0.5' in metrics.text()


def test_two_processes_in_one_do_not_meet() -> None:
    one, two = Metrics("one"), Metrics("two")
    one.count("lyrebird_rows_total")
    assert 'application="one"' not in two.text()


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    write_atomically(path, "one")
    write_atomically(path, "two")
    assert path.read_text(encoding="utf-8") == "two"
    assert [each.name for each in tmp_path.iterdir()] == ["note.json"]


def test_a_report_changes_the_progress_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LYREBIRD_RUN", raising=False)
    clock = ManualClock(7)
    run = RunFolder.from_environment("app", tmp_path, clock)
    run.report(batch=1)
    first = (run.path / "progress.json").read_text(encoding="utf-8")
    clock.advance(1)
    run.report(batch=1)
    second = (run.path / "progress.json").read_text(encoding="utf-8")
    assert (json.loads(first), json.loads(second)) == ({"at_us": 7, "batch": 1}, {"at_us": 1_000_007, "batch": 1})


def test_a_guardian_names_the_folder_and_its_stop_request_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LYREBIRD_RUN", str(tmp_path / "run"))
    run = RunFolder.from_environment("app", tmp_path / "state")
    assert run.path == tmp_path / "run"
    assert not run.stop_requested()
    (run.path / "stop").touch()
    assert run.stop_requested()
    assert RunFolder.from_environment("app", tmp_path / "state").stop_requested()


def test_a_run_by_hand_forgets_an_earlier_stop_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LYREBIRD_RUN", raising=False)
    run = RunFolder.from_environment("app", tmp_path)
    (run.path / "stop").touch()
    assert not RunFolder.from_environment("app", tmp_path).stop_requested()


def test_a_report_that_no_room_is_for_is_dropped_and_what_has_to_be_kept_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path, ManualClock())
    folder.report(n=1)

    def full(_path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(progress, "write_atomically", full)
    folder.report(n=2)
    assert folder.kept("progress.json")["n"] == 1
    with pytest.raises(OSError, match="no room"):
        folder.keep("incidents.json", {})
