"""The environment of Airflow's processes: where its database is, for whoever cleans it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from include.local.recipes import airflow
from include.local.services import SERVICES
from include.local.site import Site
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
