"""What `lyrebird doctor` says of a disk."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

from include.local import doctor

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("ahead_kb", "verdicts"), [(128, ["ok"]), (8192, ["note"]), (None, [])])
def test_a_large_read_ahead_is_noted_as_it_slows_an_index_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_kb: int | None, verdicts: list[str]
) -> None:
    monkeypatch.setattr(doctor, "read_ahead_kb", lambda _: ahead_kb)
    found = [check for check in doctor.examine(tmp_path / "state") if check.name == "read-ahead"]
    assert [check.verdict for check in found] == verdicts
    assert all(("blockdev" in check.fix) == (check.verdict == "note") for check in found)


def test_the_read_ahead_of_a_folder_s_disk_is_a_number_or_not_told(tmp_path: Path) -> None:
    found = doctor.read_ahead_kb(tmp_path)
    assert found is None or found >= 0


def test_without_go_it_looks_for_pip_and_leaves_setuptools_its_distutils(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("include.local.doctor.shutil.which", lambda _, **_more: None)
    monkeypatch.setattr("include.local.doctor.resolve.missing", lambda rows, _: rows)
    # A new one, as another test may have spoilt that of the process.
    finder = import_module("_distutils_hack").DistutilsMetaFinder()
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert [check.verdict for check in doctor.examine(tmp_path / "state") if check.name == "go"] == ["ok"]
    assert finder.spec_for_distutils() is not None


def airflow_checks(state: Path) -> list[doctor.Check]:
    return [check for check in doctor.examine(state) if check.name == "airflow"]


def test_the_airflow_of_the_local_stack_is_fit_for_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        monkeypatch.delenv(name)
    assert [check.verdict for check in airflow_checks(tmp_path)] == ["ok"]


def test_an_airflow_of_one_s_own_that_spreads_streams_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.delenv("LYREBIRD_HOST", raising=False)
    (tmp_path / "airflow.cfg").write_text("[core]\nexecutor = CeleryExecutor\n")
    found = airflow_checks(tmp_path / "state")
    # Airflow's own default of the heartbeat's time-out is the other one.
    assert [check.verdict for check in found] == ["wrong", "wrong"]
    assert "CeleryExecutor" in found[0].found
    assert "LYREBIRD_HOST" in found[0].fix
    monkeypatch.setenv("LYREBIRD_HOST", "a")
    monkeypatch.setenv("AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT", "90")
    assert [check.verdict for check in airflow_checks(tmp_path / "state")] == ["ok"]
