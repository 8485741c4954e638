"""The history of audits: the newest runs, what each has found, nothing of an earlier try."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from include.audit import history
from include.audit.history import History

RUN = "scheduled__2026-11-02T02:30:00+00:00"


def write(file: Path, content: object, at_s: int) -> None:
    file.write_text(json.dumps(content))
    os.utime(file, (at_s, at_s))


def test_a_runs_report_and_expectations_are_kept_under_its_own_id(tmp_path: Path) -> None:
    kept = History(tmp_path / "search")
    assert kept.runs() == []
    kept.begin(RUN)
    write(kept.report(RUN), {"audits": {"a": {"findings": 0}}}, 5)
    write(kept.expectations(RUN, "a/b"), {"failed": 1}, 7)
    (found,) = kept.runs()
    assert (found.run_id, found.ended_us) == (RUN, 7_000_000)
    assert found.report == {"audits": {"a": {"findings": 0}}}
    assert found.expectations == {"a/b": {"failed": 1}}
    assert kept.run(RUN) == found
    assert kept.run("another") is None


def test_a_run_that_begins_again_has_nothing_of_its_earlier_try(tmp_path: Path) -> None:
    kept = History(tmp_path)
    for run in (RUN, "other"):
        kept.begin(run)
        write(kept.report(run), {"audits": {}}, 5)
        write(kept.expectations(run, "a"), {"failed": 0}, 5)
    kept.begin(RUN)
    assert [each.run_id for each in kept.runs()] == ["other"]


def test_the_newest_runs_are_kept_and_listed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEPT_RUNS", 3)
    kept = History(tmp_path)
    for number in range(6):
        kept.begin(f"run {number}")
        write(kept.report(f"run {number}"), {"n": number}, 100 + number)
    assert [each.run_id for each in kept.runs()] == ["run 5", "run 4", "run 3"]


def test_a_file_that_cannot_be_read_harms_no_other(tmp_path: Path) -> None:
    kept = History(tmp_path)
    kept.begin("a")
    write(kept.report("a"), {"n": 1}, 1)
    kept.report("b").write_text('{"n":')
    assert [each.run_id for each in kept.runs()] == ["a"]
