"""Airflow's settings as its own processes have them; what they have to be: `include.settings.airflow_settings`."""

from __future__ import annotations

import logging
import os

from airflow.sdk.configuration import conf

from include.settings.airflow_settings import JOBS_POOL, AirflowSettings

__all__ = ["airflow_settings", "jobs_pool", "warn_of_faults"]

_log = logging.getLogger(__name__)
# The default of `lease_ttl_s`: deployment files are not read where a plugin loads. `lyrebird doctor` knows them.
_LEASE_S = 300.0


def airflow_settings() -> AirflowSettings:
    """The settings of this process."""
    return AirflowSettings.read(lambda section, key: conf.get(section, key, fallback=None))


def jobs_pool() -> str:
    """The pool of tasks that hold their slot until a job has ended. Airflow starts no task of a missing pool."""
    return os.environ.get(JOBS_POOL) or "default_pool"


def warn_of_faults() -> None:
    """Log each fault; nothing is refused here, as pages and timetables would go with the plugin."""
    faults = airflow_settings().faults(shortest_lease_s=_LEASE_S, one_host="LYREBIRD_HOST" in os.environ)
    for told, fix in faults:
        _log.error("Lyrebird's streams: %s. %s", told, fix)
