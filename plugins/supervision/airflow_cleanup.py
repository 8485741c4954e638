"""Removes what is old from the SQLite database of the local stack's Airflow, and makes its file smaller.

Airflow keeps its database from tasks, so the task runs this module as a command of its own, as `airflow db clean` is
one: `python -m supervision.airflow_cleanup DAYS`. The work is Airflow's `run_cleanup`. That goes by age alone and would
take runs that run, too, so it is told the start of the oldest of them, where that is longer ago. A run whose DAG was
taken out of the deployment never ends: after a week without its DAG it holds nothing back, and goes by age.

The scheduler writes meanwhile, and waits five seconds at most for SQLite's one lock. So rows go in small batches, and
pages are given back in small steps. A file that was made without `auto_vacuum` would have to be copied as a whole: on a
busy machine that keeps writers out for longer than they wait from 50 MB on. `lyrebird down`, then `lyrebird up`
does it before Airflow's processes start; until then the file only does not grow.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from include.clock import Clock, SystemClock
from include.errors import Transient
from include.settings.airflow_settings import SQLITE_FILE
from include.settings.environment import PROJECT_ROOT
from include.settings.run import RunParams, knob
from supervision.leash import leashed

__all__ = ["CleanupRun", "RunningRun", "clean", "give_pages_back", "main", "oldest_to_keep", "remove_older"]

_LOGGER: Final = logging.getLogger(__name__)
# What depends on them comes along. Not `trigger`: its rows take deferred tasks with them, and Airflow itself removes
# those that no task waits for.
_RUNS: Final = ["dag_run", "dag_version"]
_OTHERS: Final = ["asset_event", "callback", "import_error", "job", "log", "revoked_token"]
_ROWS: Final = 500
# A DAG is stale, too, while a deployment file of it cannot be read.
_GONE_AFTER: Final = timedelta(days=7)
_PAGES: Final = 200
_INCREMENTAL: Final = 2
_STEP_S: Final = 0.05
_WAIT_S: Final = 60.0


class CleanupRun(RunParams):
    """One run of the DAG airflow_cleanup."""

    days: int = knob("What is older is removed.", 30, ge=1)


@dataclass(frozen=True)
class RunningRun:
    """A run that runs, as Airflow's database has it.

    Attributes:
        dag: its DAG.
        began: times to keep from, None where one is not known.
        stale: whether the database has no such DAG, or it was not found any more when its file was read last.
        read: when it was found last, if ever.
    """

    dag: str
    began: tuple[datetime | None, ...]
    stale: bool = False
    read: datetime | None = None

    def is_left(self, now: datetime) -> bool:
        """Whether nobody can end it, as its DAG is gone for good."""
        return self.stale and (self.read is None or self.read < now - _GONE_AFTER)


def clean(params: Mapping[str, Any] | None = None) -> None:
    """Run `main` on a leash, over the file that the environment names, and relay what it prints.

    Raises:
        Transient: it failed; what was removed until then stays so.
    """
    names = {name: value for name, value in os.environ.items() if not name.endswith("__SQL_ALCHEMY_CONN")}
    names["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{names[SQLITE_FILE]}"
    names["PYTHONPATH"] = os.pathsep.join([str(PROJECT_ROOT), str(PROJECT_ROOT / "plugins")])
    with subprocess.Popen(  # noqa: S603 - our own module
        leashed([sys.executable, "-m", "supervision.airflow_cleanup", str((params or {})["days"])]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=names,
    ) as child:
        for line in child.stdout or ():
            _LOGGER.info("%s", line.rstrip())
    if child.returncode != 0:
        raise Transient("Airflow's database was not cleaned: the lines above say why", status=child.returncode)


def remove_older(before: datetime, now: datetime) -> tuple[datetime, list[str]]:
    """Remove what is older than `before` from the database that Airflow is set to; returns as `oldest_to_keep`.

    Raises:
        RuntimeError: some tables could not be cleaned; the others are.
    """
    import pendulum
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.db_cleanup import run_cleanup
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from sqlalchemy import func, select

    with create_session() as session:
        gone = func.coalesce(DagModel.is_stale, True)
        asked = (
            select(DagRun.dag_id, DagRun.start_date, DagRun.run_after, gone, DagModel.last_parsed_time)
            .outerjoin(DagModel, DagModel.dag_id == DagRun.dag_id)
            .where(DagRun.state == DagRunState.RUNNING)
        )
        # The start of one that was cleared is that of its last try; some of its tasks are older.
        running = [
            RunningRun(dag, (start, after), stale, read) for dag, start, after, stale, read in session.execute(asked)
        ]
    runs_before, left = oldest_to_keep(before, running, now)
    for tables, older in ((_RUNS, runs_before), (_OTHERS, before)):
        run_cleanup(
            table_names=tables,
            clean_before_timestamp=pendulum.instance(older),
            confirm=False,
            skip_archive=True,
            batch_size=_ROWS,
            error_on_cleanup_failure=True,
        )
    return runs_before, left


def oldest_to_keep(before: datetime, running: Iterable[RunningRun], now: datetime) -> tuple[datetime, list[str]]:
    """The time before which no run has to be kept, and DAGs of older runs that run, for which nothing is kept."""
    keep, left = before, set()
    for run in running:
        # A second before: SQLite compares times as texts, and Airflow's has a zone, so an equal one would be older.
        since = min([before, *(each - timedelta(seconds=1) for each in run.began if each is not None)])
        if run.is_left(now):
            left |= {run.dag} if since < before else set()
        else:
            keep = min(keep, since)
    return keep, sorted(left)


def give_pages_back(database: Path, clock: Clock) -> int | None:
    """Make the file as small as its content, beside those that write; how many bytes smaller it is.

    None: nothing was done, as this file does not let itself be made smaller in steps.
    """
    before = database.stat().st_size
    with closing(sqlite3.connect(database, timeout=_WAIT_S, isolation_level=None)) as metadata:
        if metadata.execute("PRAGMA auto_vacuum").fetchone() != (_INCREMENTAL,):
            return None
        while metadata.execute("PRAGMA freelist_count").fetchone() != (0,):
            # Not `execute`, which gives one page back and stops.
            metadata.executescript(f"PRAGMA incremental_vacuum({_PAGES})")
            # SQLite has no queue: who waits tries again after up to 100 ms, and would meet the next step.
            clock.sleep(_STEP_S)
        # The file gets shorter by this; it keeps writers out while it waits for readers, so it may not wait long.
        metadata.execute("PRAGMA busy_timeout=1000")
        metadata.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return before - database.stat().st_size


def main(days: int) -> None:
    """Keep the last `days`."""
    clock = SystemClock()
    now = datetime.fromtimestamp(clock.now_us() / 1e6, UTC)
    before = now - timedelta(days=days)
    runs_before, left = remove_older(before, now)
    freed = give_pages_back(Path(os.environ[SQLITE_FILE]), clock)
    held = f", as one of them still runs; all else since {before:%F %T}" if runs_before < before else ""
    if left:
        sys.stdout.write(f"runs that still run hold nothing back where their DAG is gone: {', '.join(left)}\n")
    size = "stays as large as it is" if freed is None else f"is {freed:,} bytes smaller"
    sys.stdout.write(f"kept are runs since {runs_before:%F %T} UTC{held}; the file {size}\n")
    if freed is None:
        sys.stdout.write(
            "to let it get smaller, too, start Airflow anew once: lyrebird down, then lyrebird up, which copies it and "
            "needs free room of twice its size for that\n"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]))
