"""Which of Airflow's settings supervision can work with."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.settings.airflow_settings import AirflowSettings, from_files

pytestmark = pytest.mark.unit

FIT = AirflowSettings("LocalExecutor", 1, 90)


def faults(settings: AirflowSettings, lease_s: float = 300, *, one_host: bool = False) -> list[str]:
    return [told for told, _ in settings.faults(shortest_lease_s=lease_s, one_host=one_host)]


def test_the_settings_of_the_local_stack_are_fit() -> None:
    assert faults(FIT) == []


@pytest.mark.parametrize(
    ("executor", "named"),
    [
        ("CeleryExecutor", "CeleryExecutor"),
        ("LocalExecutor,KubernetesExecutor", "KubernetesExecutor"),
        ("LocalExecutor;team1=batch:company.executors.BatchExecutor", "BatchExecutor"),
        ("airflow.providers.celery.executors.celery_executor.CeleryExecutor", "CeleryExecutor"),
    ],
)
def test_an_executor_that_spreads_tasks_is_refused_unless_one_host_is_declared(executor: str, named: str) -> None:
    settings = AirflowSettings(executor, 1, 90)
    [told] = faults(settings)
    assert told.startswith(named)
    assert faults(settings, one_host=True) == []


def test_airflow_s_default_time_until_a_killed_task_is_found_is_too_long_for_a_lease() -> None:
    default = AirflowSettings()
    assert len(faults(default)) == 1
    assert faults(default, lease_s=400) == []
    assert len(faults(FIT, lease_s=100)) == 1


def test_an_event_is_held_for_longer_than_the_interval_by_which_the_deferral_is_booked() -> None:
    assert FIT.hold_events_s == 4
    assert AirflowSettings(min_heartbeat_interval_s=5).hold_events_s == 8
    assert len(faults(AirflowSettings("LocalExecutor", 60, 90))) == 1


def test_the_environment_wins_over_the_file_and_both_over_the_default(tmp_path: Path) -> None:
    config = tmp_path / "airflow.cfg"
    assert from_files({}, config) == AirflowSettings()
    config.write_text("[core]\nexecutor = CeleryExecutor\n[workers]\nmin_heartbeat_interval = 2\n# %(x)s\n")
    assert from_files({}, config) == AirflowSettings("CeleryExecutor", 2, 300)
    assert from_files({"AIRFLOW__CORE__EXECUTOR": "LocalExecutor"}, config).executor == "LocalExecutor"
