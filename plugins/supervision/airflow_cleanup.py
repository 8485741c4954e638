"""Removes what is old from the SQLite database of the local stack's Airflow, and makes its file smaller.

Airflow keeps its database from tasks, so the task runs this module as a command of its own, as `airflow db clean` is
one: `python -m supervision.airflow_cleanup DAYS`. The work is Airflow's `run_cleanup`. That goes by age alone and would
take runs that run, too, so it is told the start of the oldest of them, where that is longer ago.

The scheduler writes meanwhile, and waits five seconds at most for SQLite's one lock. So rows go in small batches, and
pages are given back in small steps. Only a file that was made without `auto_vacuum` is copied as a whole, once and
after its rows have gone: that keeps writers out for a second or two for each 100 MB.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from include.clock import SystemClock
from include.errors import Transient
from include.settings.airflow_settings import SQLITE_FILE
from include.settings.environment import PROJECT_ROOT
from supervision.leash import leashed

__all__ = ["clean", "earliest", "give_pages_back", "main", "remove_older"]

_LOGGER: Final = logging.getLogger(__name__)
# What depends on them comes along. Not `trigger`: its rows take deferred tasks with them, and Airflow itself removes
# those that no task waits for.
_RUNS: Final = ["dag_run", "dag_version"]
_OTHERS: Final = ["asset_event", "callback", "import_error", "job", "log", "revoked_token"]
_ROWS: Final = 500
_PAGES: Final = 1000
_INCREMENTAL: Final = 2
_WAIT_S: Final = 60.0


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


def remove_older(before: datetime) -> datetime:
    """Remove what is older than that from the database that Airflow is set to; since when runs are kept.

    Raises:
        RuntimeError: some tables could not be cleaned; the others are.
    """
    import pendulum
    from airflow.models.dagrun import DagRun
    from airflow.utils.db_cleanup import run_cleanup
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from sqlalchemy import func, select

    with create_session() as session:
        # The start of one that was cleared is that of its last try; some of its tasks are older.
        began = select(func.min(DagRun.start_date), func.min(DagRun.run_after))
        runs_before = earliest(before, session.execute(began.where(DagRun.state == DagRunState.RUNNING)).one())
    for tables, older in ((_RUNS, runs_before), (_OTHERS, before)):
        run_cleanup(
            table_names=tables,
            clean_before_timestamp=pendulum.instance(older),
            confirm=False,
            skip_archive=True,
            batch_size=_ROWS,
            error_on_cleanup_failure=True,
        )
    return runs_before


def earliest(before: datetime, began: Iterable[datetime | None]) -> datetime:
    """The time before which nothing has to be kept; `began`: times to keep from, None where there is none."""
    # A second before: SQLite compares times as texts, and Airflow's has a zone, so that an equal one would be older.
    return min([before, *(each - timedelta(seconds=1) for each in began if each is not None)])


def give_pages_back(database: Path) -> int:
    """Make the file as small as its content, beside those that write; how many bytes smaller it is."""
    before = database.stat().st_size
    with closing(sqlite3.connect(database, timeout=_WAIT_S, isolation_level=None)) as metadata:
        if metadata.execute("PRAGMA auto_vacuum").fetchone() != (_INCREMENTAL,):
            metadata.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")
            metadata.execute("VACUUM")
        while metadata.execute("PRAGMA freelist_count").fetchone() != (0,):
            # Not `execute`, which gives one page back and stops.
            metadata.executescript(f"PRAGMA incremental_vacuum({_PAGES})")
        # The file gets shorter by this; it keeps writers out while it waits for readers, so it may not wait long.
        metadata.execute("PRAGMA busy_timeout=1000")
        metadata.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return before - database.stat().st_size


def main(days: int) -> None:
    """Keep the last `days`."""
    before = datetime.fromtimestamp(SystemClock().now_us() / 1e6, UTC) - timedelta(days=days)
    runs_before = remove_older(before)
    freed = give_pages_back(Path(os.environ[SQLITE_FILE]))
    held = f", as one of them still runs; all else since {before:%F %T}" if runs_before < before else ""
    sys.stdout.write(f"kept are runs since {runs_before:%F %T} UTC{held}; the file is {freed:,} bytes smaller\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
