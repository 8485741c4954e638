"""Judges Airflow's own settings by what supervision needs; they are read where Airflow is and where it is not."""

from __future__ import annotations

import configparser
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["JOBS_POOL", "SQLITE_FILE", "SUPERVISION", "AirflowSettings", "SettingFault", "from_files"]

JOBS_POOL: Final = "LYREBIRD_JOBS_POOL"
"""Names Airflow's pool for tasks that hold their slot to the end of a job; `default_pool` where it is not set."""
SUPERVISION: Final = {
    # With fewer slots than workers, so that the tasks that bring a stream back always find one.
    JOBS_POOL: "lyrebird_jobs",
    # Each event of a stream waits for it.
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    # A task whose worker was killed is tried again before the lease of its application (300 s) runs out.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "90",
}
"""What the stacks of this project set."""
SQLITE_FILE: Final = "LYREBIRD_AIRFLOW_SQLITE"
"""Names the file of Airflow's database, where the local stack keeps it in one."""

_ONE_HOST = {"LocalExecutor", "SequentialExecutor"}
# From the end of a deferred task's process until its executor has booked it, beside the interval of heartbeats.
_BOOKED_WITHIN_S = 3.0
_LONGEST_INTERVAL_S = 25.0
# A task whose worker was killed is found by the scheduler, queued and started: not at once.
_STARTED_AGAIN_WITHIN_S = 60.0


class SettingFault(NamedTuple):
    """What is wrong, and what to do."""

    told: str
    fix: str


@dataclass(frozen=True)
class AirflowSettings:
    """Three of them, with Airflow's own defaults.

    Attributes:
        executor: `[core] executor`.
        min_heartbeat_interval_s: `[workers] min_heartbeat_interval`.
        heartbeat_timeout_s: `[scheduler] task_instance_heartbeat_timeout`.
    """

    executor: str = "LocalExecutor"
    min_heartbeat_interval_s: float = 5.0
    heartbeat_timeout_s: float = 300.0

    @classmethod
    def read(cls, get: Callable[[str, str], str | None]) -> AirflowSettings:
        """From `get(section, key)`, which gives None where nobody set it."""
        default = cls()
        return cls(
            get("core", "executor") or default.executor,
            float(get("workers", "min_heartbeat_interval") or default.min_heartbeat_interval_s),
            float(get("scheduler", "task_instance_heartbeat_timeout") or default.heartbeat_timeout_s),
        )

    @property
    def hold_events_s(self) -> float:
        """How long a trigger holds its event after a deferral: one that fires before it is booked fails the task.

        A worker notices the end of a task's process within the interval, and tells its executor then.
        """
        return self.min_heartbeat_interval_s + _BOOKED_WITHIN_S

    def faults(self, *, shortest_lease_s: float, one_host: bool) -> list[SettingFault]:
        """Finds what supervision cannot work with.

        Args:
            shortest_lease_s: the smallest `lease_ttl_s` of the applications.
            one_host: whether somebody says that all workers and the triggerer are on one host, whatever the executor.
        """
        faults: list[SettingFault] = []
        foreign = [name for name in self._executors() if name not in _ONE_HOST]
        if foreign and not one_host:
            told = f"{', '.join(foreign)} may spread streams over hosts: on a second host each is refused"
            fix = (
                "Set [core] executor to LocalExecutor; or, where all workers and the triggerer are on one host, set "
                "LYREBIRD_HOST to its name for all of Airflow's processes."
            )
            faults.append(SettingFault(told, fix))
        if self.min_heartbeat_interval_s > _LONGEST_INTERVAL_S:
            told = f"each event of a stream waits for min_heartbeat_interval, {self.min_heartbeat_interval_s:g} s"
            fix = f"Set [workers] min_heartbeat_interval to 1; {_LONGEST_INTERVAL_S:g} at most."
            faults.append(SettingFault(told, fix))
        most_s = shortest_lease_s - _STARTED_AGAIN_WITHIN_S
        if self.heartbeat_timeout_s > most_s:
            told = (
                f"task_instance_heartbeat_timeout is {self.heartbeat_timeout_s:g} s: an application whose task was "
                f"killed ends by its lease ({shortest_lease_s:g} s) before the task is tried again"
            )
            fix = (
                f"Set [scheduler] task_instance_heartbeat_timeout to {min(90.0, max(most_s, 10.0)):g}, or a longer "
                "lease_ttl_s."
            )
            faults.append(SettingFault(told, fix))
        return faults

    def _executors(self) -> list[str]:
        """Class names, without teams, aliases and modules: `team=alias:module.Class,Other;…`."""
        words = (word.rpartition("=")[2].rpartition(":")[2].strip() for word in re.split("[,;]", self.executor))
        return [word.rpartition(".")[2] for word in words if word]


def from_files(env: Mapping[str, str], config: Path) -> AirflowSettings:
    """The settings as Airflow would read them: its environment first, then `config`, its airflow.cfg."""
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.read(config, encoding="utf-8")
    return AirflowSettings.read(
        lambda section, key: (
            env.get(f"AIRFLOW__{section.upper()}__{key.upper()}") or parsed.get(section, key, fallback=None)
        )
    )
