"""The environment of Airflow's processes: where its database is, for whoever cleans it."""

from __future__ import annotations

import os
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from include.local import process
from include.local.process import Launch
from include.local.programs import spark_classes
from include.local.recipes import airflow
from include.local.records import Records, ServerState
from include.local.services import SERVICES
from include.local.site import Site, read_env
from include.settings.airflow_settings import SQLITE_FILE
from tests.support.paths import ROOT


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(airflow, "system_java", lambda: SimpleNamespace(home=tmp_path))
    for name in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", SQLITE_FILE):
        monkeypatch.delenv(name, raising=False)
    ports = {port.name: port.default for row in SERVICES for port in row.ports}
    secrets = defaultdict[str, str](lambda: "s")
    return Site(tmp_path, tmp_path / "cache", ROOT, None, ports, secrets, tmp_path)


def test_the_file_of_its_own_database_is_named(site: Site) -> None:
    assert airflow._environment(site)[SQLITE_FILE] == str(site.state / "airflow" / "airflow.db")


@pytest.mark.parametrize("name", ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD"])
def test_a_database_of_the_callers_is_left_to_the_caller(
    site: Site, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "postgresql://h/airflow")
    environment = airflow._environment(site)
    assert environment[name] == "postgresql://h/airflow"
    assert SQLITE_FILE not in environment


AIRFLOW = next(row for row in SERVICES if row.name == "airflow")


def older_database(site: Site) -> Path:
    """One that was made before the clean-up was, with room in it."""
    file = site.folder(AIRFLOW) / "airflow.db"
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as made, made:
        made.execute("CREATE TABLE log (extra TEXT)")
        made.executemany("INSERT INTO log VALUES (?)", [("x" * 1000,)] * 1000)
    with closing(sqlite3.connect(file)) as made, made:
        made.execute("DELETE FROM log WHERE rowid > 10")
    return file


def gets_smaller(file: Path) -> bool:
    with closing(sqlite3.connect(file)) as asked:
        assert asked.execute("SELECT count(*) FROM log").fetchone() == (10,)
        return bool(asked.execute("PRAGMA auto_vacuum").fetchone() == (2,))


@pytest.fixture
def migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow, "_migrate", lambda _home, _environment: None)
    monkeypatch.setattr(spark_classes, "archive", lambda cache, *_more: cache / "classes.jsa")


def test_an_old_database_is_copied_before_airflow_starts_so_that_it_can_get_smaller(site: Site, migrated: None) -> None:
    file = older_database(site)
    before = file.stat().st_size
    airflow.prepare(site, AIRFLOW)
    assert gets_smaller(file)
    assert file.stat().st_size < before / 10
    copied = file.stat().st_mtime_ns
    airflow.prepare(site, AIRFLOW)
    assert file.stat().st_mtime_ns == copied


def test_commands_find_the_archive_of_sparks_classes(site: Site, migrated: None) -> None:
    site.write_env(())
    airflow.prepare(site, AIRFLOW)
    names = read_env(site.state / "env")
    assert names["LYREBIRD_SPARK_CLASSES"] == str(site.cache / "classes.jsa")
    assert set(names) > set(site.secrets)


def test_a_database_that_airflow_has_open_is_not_copied(site: Site, migrated: None) -> None:
    file = older_database(site)
    me = process.identify(os.getpid())
    assert me is not None
    records = Records(site.state)
    records.servers.mkdir()
    records.write(ServerState("airflow-triggerer", "running", "", me.pid, me.started))
    airflow.prepare(site, AIRFLOW)
    assert not gets_smaller(file)


def test_a_database_that_airflow_is_about_to_open_is_not_copied(site: Site, migrated: None) -> None:
    """After a crash of the host nothing of it is alive, and the supervisor starts what is still wanted."""
    file = older_database(site)
    records = Records(site.state)
    records.servers.mkdir()
    records.ask(Launch("airflow-scheduler", ("true",), {}, str(site.state), str(site.log("airflow-scheduler"))))
    airflow.prepare(site, AIRFLOW)
    assert not gets_smaller(file)
    records.forget("airflow-scheduler")
    airflow.prepare(site, AIRFLOW)
    assert gets_smaller(file)


def test_a_damaged_database_is_left_for_airflow_to_tell(site: Site, migrated: None) -> None:
    file = older_database(site)
    file.write_bytes(b"no database" * 1000)
    assert airflow.prepare(site, AIRFLOW)
    assert file.read_bytes() == b"no database" * 1000


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_copy_that_cannot_be_made_stops_nothing(
    site: Site, migrated: None, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    file = older_database(site)
    with closing(sqlite3.connect(file)) as writer:
        writer.execute(f"BEGIN {lock}")
        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda path, **more: connect(path, timeout=0, **more))
        assert airflow.prepare(site, AIRFLOW)
        writer.rollback()
    assert not gets_smaller(file)
