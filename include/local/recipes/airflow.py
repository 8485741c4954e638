"""Airflow as four processes over one metadata database (SQLite unless AIRFLOW__DATABASE__* says otherwise).

Not `airflow standalone`: it leaves its children running when it is told to end. Every AIRFLOW__* of the caller wins
over the values here.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import importlib.metadata
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

from include.errors import Terminal
from include.local.cause import cause
from include.local.process import Launch
from include.local.programs import spark_classes
from include.local.programs.java import system_java
from include.local.recipes.probe import get_json
from include.local.records import Records, write_private
from include.local.services import Service
from include.local.site import Site, secret_key
from include.log.running.spark_home import spark_home
from include.settings.airflow_settings import JOBS_POOL, SQLITE_FILE, SUPERVISION

__all__ = ["finish", "prepare", "ready"]

_WORKERS = 4
_JOBS = 2
# One process for all, as each Airflow command costs 4-9 s of imports. Connection and pool live in the database, where
# a person changes them, and are therefore never written again.
_METADATA = f"""
import os
from airflow.utils.db import upgradedb
upgradedb()
from airflow.models.connection import Connection
from airflow.models.pool import Pool
from airflow.utils.session import create_session
from sqlalchemy import select
with create_session() as session:
    if session.scalar(select(Connection).where(Connection.conn_id == "spark_default")) is None:
        session.add(Connection(
            conn_id="spark_default", conn_type="spark", host=os.environ["LYREBIRD_SPARK_MASTER"],
            description="Master and defaults of every Spark application: local[n] or spark://host:port",
        ))
    name = os.environ["{JOBS_POOL}"]
    if session.scalar(select(Pool).where(Pool.pool == name)) is None:
        session.add(Pool(
            pool=name, slots={_JOBS}, include_deferred=False,
            description="Jobs of Spark and commands that hold their worker until they end",
        ))
"""
_INCREMENTAL = 2
_QUIET = "airflow.jobs airflow.dag_processing airflow.executors alembic uvicorn"


def _environment(site: Site) -> dict[str, str]:
    home = site.state / "airflow"
    url = f"http://127.0.0.1:{site.ports['airflow']}"
    smtp = {
        "conn_type": "smtp",
        "host": "127.0.0.1",
        "port": site.ports["smtp"],
        "login": "lyrebird",
        "password": site.secrets["LYREBIRD_MAIL_PASSWORD"],
        "extra": {"disable_ssl": True, "disable_tls": True, "from_email": "lyrebird@localhost"},
    }
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(site.project / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(site.project / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": str(_WORKERS),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(site.ports["airflow"]),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__BASE_URL": url,
        # Without it workers look on port 8080.
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__API_AUTH__JWT_SECRET": secret_key(site, "airflow_jwt"),
        "AIRFLOW__API__SECRET_KEY": secret_key(site, "airflow_api"),
        "AIRFLOW__CORE__FERNET_KEY": secret_key(site, "airflow_fernet"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "AIRFLOW__LOGGING__UVICORN_LOGGING_LEVEL": "WARNING",
        # Not LOGGING_LEVEL=WARNING, which drops what tasks print, too.
        "AIRFLOW__LOGGING__NAMESPACE_LEVELS": " ".join(f"{n}=WARNING" for n in _QUIET.split()),
        "AIRFLOW__DAG_PROCESSOR__PRINT_STATS_INTERVAL": "0",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
        "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "2",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
        "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
        **SUPERVISION,
        "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(smtp),
        "LYREBIRD_SPARK_MASTER": "local[2]",
        "SPARK_HOME": str(spark_home(site.cache)),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(system_java().home),
    }
    callers = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_")) or name in {"LYREBIRD_SPARK_MASTER", JOBS_POOL}
    }
    if not any(name.startswith("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN") for name in callers):
        settings[SQLITE_FILE] = str(home / "airflow.db")
    return {**site.python_environment(), **settings, **callers}


def prepare(site: Site, row: Service) -> tuple[Launch, ...]:
    """Write the password file, bring the metadata database to this version once, return the four processes."""
    home = site.folder(row)
    home.mkdir(parents=True, exist_ok=True)
    environment = _environment(site)
    if environment["LYREBIRD_SPARK_MASTER"].startswith("local") and (
        classes := spark_classes.archive(site.cache, system_java(), environment)
    ):
        # For drivers of Airflow's tasks and of a person's commands.
        site.write_env((), LYREBIRD_SPARK_CLASSES=str(classes))
    password = {"admin": site.secrets["LYREBIRD_AIRFLOW_PASSWORD"]}
    write_private(home / "passwords.json", json.dumps(password))
    _migrate(home, environment)
    if SQLITE_FILE in environment and not _may_run(Records(site.state), row):
        _let_get_smaller(home / "airflow.db")
    commands = {
        "api-server": (),
        # Their log servers would listen on all addresses; the local log folder is read directly.
        "scheduler": ("--skip-serve-logs",),
        "dag-processor": (),
        "triggerer": ("--skip-serve-logs",),
    }
    return tuple(
        Launch(
            name=f"airflow-{command}",
            argv=(sys.executable, "-m", "airflow", command, *flags),
            env=environment,
            cwd=str(site.project),
            log=str(site.log(f"airflow-{command}")),
        )
        for command, flags in commands.items()
    )


def _migrate(home: Path, environment: dict[str, str]) -> None:
    """Bring the database to the installed version, with the pool of jobs, unless the stamp says that it is."""
    database = environment.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "")
    where = f"{base64.b64encode(database.encode()).decode()} {environment[JOBS_POOL]}"
    mark = f"{importlib.metadata.version('apache-airflow')} {where}"
    stamp = home / "migrated"
    there = bool(database) or (home / "airflow.db").exists()
    if there and stamp.exists() and stamp.read_text() == mark:
        return
    log = home.parent / "log" / "airflow-migrate.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        made = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-c", _METADATA],
            env=environment,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if made.returncode != 0:
        said = " | ".join(cause(log.read_text(errors="replace")))
        raise Terminal(f"Airflow's database could not be made: {said}", fix=f"Look at {log}.")
    if not database:
        # Kept by the file: readers no longer hold up writers, which answered "database is locked" under load.
        with contextlib.closing(sqlite3.connect(home / "airflow.db")) as metadata:
            metadata.execute("PRAGMA journal_mode=WAL")
    write_private(stamp, mark)


def _may_run(records: Records, row: Service) -> bool:
    """Whether one of its processes runs, or may start meanwhile: the supervisor starts what has a spec."""
    return any(records.spec(n) or ((one := records.read(n)) and one.is_alive) for n in row.processes)


def _let_get_smaller(database: Path) -> None:
    """Let the clean-up, beside Airflow, give this file's free pages back in steps: once it has to be copied for that.

    Nobody else may have it open: they would wait for a second or two for each 100 MB of content, longer on a busy disk.
    """
    # It goes on as it is where no room is for the copy, for which the clean-up's log says how much that needs; or where
    # it is locked or damaged, which Airflow tells.
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(database, isolation_level=None)) as metadata,
    ):
        if metadata.execute("PRAGMA auto_vacuum").fetchone() != (_INCREMENTAL,):
            metadata.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")
            metadata.execute("VACUUM")


def ready(site: Site, row: Service) -> bool:
    """All four components healthy, by heartbeats of the processes that run now and not of earlier ones."""
    health = get_json(f"http://127.0.0.1:{site.ports['airflow']}/api/v2/monitor/health")
    if not isinstance(health, dict):
        return False
    if (health.get("metadatabase") or {}).get("status") != "healthy":
        return False
    records = Records(site.state)
    for part in ("scheduler", "triggerer", "dag_processor"):
        said = health.get(part) or {}
        beat = said.get(f"latest_{part}_heartbeat")
        server = records.read(f"airflow-{part.replace('_', '-')}")
        if said.get("status") != "healthy" or beat is None or server is None:
            return False
        if dt.datetime.fromisoformat(beat).timestamp() < server.started:
            return False
    return True


def finish(site: Site, row: Service) -> None:
    """Nothing: accounts and connections come with `prepare`."""
