"""The two plugins, and how the pages are served: whose rights they ask for, behind which prefix, with which headers."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from airflow.api_fastapi import app as airflow_app
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.core_api.security import get_user
from airflow.utils.db import initdb
from fastapi import FastAPI
from fastapi.testclient import TestClient

from include.audit.history import History
from include.settings.environment import state_folder
from supervision.links import ApplicationLogLink, AuditResultLink
from supervision.pages.serving import pages
from supervision.run_folder import run_folder
from tests.support.paths import ROOT

RUN = "manual__2026-11-02T00:00:00+00:00"
AUDIT = "audits/search/manual__2026-11-02T00%3A00%3A00%2B00%3A00"


class ByDag(SimpleAuthManager):
    """Lets users read the task logs of the DAGs that they name, as an auth manager with rights for each DAG does."""

    def is_authorized_dag(
        self, *, method: str, user: Any, access_entity: DagAccessEntity | None = None, details: Any = None
    ) -> bool:
        asked = (method, access_entity) == ("GET", DagAccessEntity.TASK_LOGS)
        return asked and (details.id in user.dags if details and details.id else bool(user.dags))

    def is_authorized_configuration(self, *, method: str, user: Any, details: Any = None) -> bool:
        return method == "GET" and user.configures


@pytest.fixture
def host(unique: str) -> Iterator[str]:
    """A capture that runs for the DAG `mine`, one that somebody runs by hand, and a run of the search audit."""
    initdb()
    for folder in ("audit", "run"):
        shutil.rmtree(state_folder() / folder, ignore_errors=True)
    held = run_folder(unique)
    held.path.mkdir(parents=True)
    (held.path / "run.json").write_text(
        json.dumps({"token": "t", "owner": "mine|r/1|t|-1", "guardian_pid": 1, "pid": 2, "started_us": 0})
    )
    (held.path / "app.log").write_text("order 17 of <customer> 4\n")
    by_hand = run_folder("by-hand")
    by_hand.path.mkdir()
    (by_hand.path / "progress.json").write_text(json.dumps({"rows": 3}))
    audits = History.of("search")
    audits.begin(RUN)
    audits.report(RUN).write_text(json.dumps({"audits": {"orders": {"missing": ["key-5"], "findings": 1}}}))
    yield unique
    for folder in ("audit", "run"):
        shutil.rmtree(state_folder() / folder, ignore_errors=True)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., TestClient]]:
    """Airflow's API server with the plugin's pages, as whoever may read these DAGs meets it."""
    from airflow import plugins_manager

    monkeypatch.setattr(airflow_app._AuthManagerState, "instance", ByDag())
    ((plugin,), _) = plugins_manager.get_fastapi_plugins()

    def served(*dags: str, prefix: str = "", configures: bool = False) -> TestClient:
        pages.dependency_overrides[get_user] = lambda: SimpleNamespace(dags=dags, configures=configures)
        server = FastAPI(root_path=prefix)
        server.mount(plugin["url_prefix"], plugin["app"])
        return TestClient(server, base_url=f"http://airflow{prefix}/")

    yield served
    pages.dependency_overrides.clear()


def test_who_is_not_logged_in_sees_no_page(host: str, opened: Callable[..., TestClient]) -> None:
    server = opened()
    pages.dependency_overrides.clear()
    for page in ("applications", f"applications/{host}/log", "audits", AUDIT):
        answer = server.get(f"lyrebird/{page}")
        assert answer.status_code == 401, page
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_who_may_not_read_a_dags_logs_sees_neither_its_applications_log_nor_its_audits_keys(
    host: str, opened: Callable[..., TestClient]
) -> None:
    server = opened("another", "audit_tables")
    for page in (f"applications/{host}/log", AUDIT):
        answer = server.get(f"lyrebird/{page}")
        assert answer.status_code == 403
        assert not re.search("customer|key-5", answer.text)
    applications, audits = (server.get(f"lyrebird/{page}") for page in ("applications", "audits"))
    assert (applications.status_code, audits.status_code) == (200, 200)
    assert not re.search(f"{host}|by-hand", applications.text)
    assert not re.search("key-5|Search index", audits.text)
    assert "Copies of tables" in audits.text


def test_who_may_read_a_dags_logs_sees_what_it_has(host: str, opened: Callable[..., TestClient]) -> None:
    server = opened("mine", "audit_search")
    assert host in server.get("lyrebird/applications").text
    assert "order 17 of &lt;customer&gt; 4" in server.get(f"lyrebird/applications/{host}/log").text
    assert "key-5" in server.get("lyrebird/audits").text
    assert "key-5" in server.get(f"lyrebird/{AUDIT}").text
    assert server.get("lyrebird/audits/index/x").status_code == 404
    assert server.get("lyrebird/applications/..%2frun/log").status_code == 404


def test_what_no_dag_holds_is_for_those_who_may_read_airflows_configuration(
    host: str, opened: Callable[..., TestClient]
) -> None:
    for configures, status in ((False, 403), (True, 200)):
        server = opened("mine", configures=configures)
        assert server.get("lyrebird/applications/by-hand/log").status_code == status
        assert ("by-hand" in server.get("lyrebird/applications").text) == configures


@pytest.mark.parametrize("prefix", ["", "/x", "/team/x"])
def test_every_link_leads_to_a_page_of_the_same_airflow(
    host: str, opened: Callable[..., TestClient], prefix: str
) -> None:
    from airflow import plugins_manager

    server = opened("mine", "audit_search", prefix=prefix)
    root = f"http://airflow{prefix}/"
    views, _ = plugins_manager._get_ui_plugins()
    key: Any = SimpleNamespace(dag_id="audit_search", run_id=RUN)
    of_tasks = [
        ApplicationLogLink().get_link(SimpleNamespace(application=host), ti_key=key),
        AuditResultLink().get_link(None, ti_key=key),
    ]
    # Airflow's own page has the prefix for its base.
    waiting = [urljoin(root, path) for path in [*(view["href"] for view in views), *of_tasks]]
    seen: set[str] = set()
    while waiting:
        url = waiting.pop()
        if url in seen:
            continue
        seen.add(url)
        assert url.startswith(root)
        if not url.startswith(f"{root}lyrebird/"):
            continue
        answer = server.get(url)
        assert answer.status_code == 200, url
        base = re.findall('<base href="(.*?)">', answer.text)
        assert [urljoin(url, each) for each in base] == [root]
        waiting += [urljoin(root, unescape(link)) for link in re.findall('<a href="(.*?)"', answer.text)]
    assert {unquote(urlsplit(url).path.removeprefix(prefix)) for url in seen} == {
        "/lyrebird/applications",
        f"/lyrebird/applications/{host}/log",
        "/lyrebird/audits",
        f"/lyrebird/audits/search/{RUN}",
        f"/dags/audit_search/runs/{RUN}",
        "/dags/mine/runs/r/1/tasks/t",
    }
    assert any(url.endswith("/dags/mine/runs/r%2F1/tasks/t") for url in seen)


def test_a_page_may_run_its_own_script_alone_and_load_nothing(host: str, opened: Callable[..., TestClient]) -> None:
    server = opened("mine", "audit_search")
    for page in ("applications", f"applications/{host}/log", "audits", AUDIT):
        answer = server.get(f"lyrebird/{page}")
        rules = dict(rule.split(" ", 1) for rule in answer.headers["Content-Security-Policy"].split("; "))
        assert rules["default-src"] == "'none'"
        for tag in ("script", "style"):
            (inline,) = re.findall(f"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
            assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
        assert not re.search(r"<[^>]*\s(on\w+|style|src)=|http-equiv|https?://", answer.text)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"


def test_a_page_can_be_read_by_its_structure(host: str, opened: Callable[..., TestClient]) -> None:
    server = opened("mine", "audit_search")
    for page in ("applications", f"applications/{host}/log", "audits", AUDIT):
        text = server.get(f"lyrebird/{page}").text
        assert text.count("<main>") == text.count("</main>") == text.count("<h1>") == 1
        tables = text.count("<table>")
        assert tables
        assert text.count("<caption>") == text.count("<thead>") == tables
        assert text.count("<th ") == text.count('<th scope="col">') + text.count('<th scope="row">')
        assert text.count('<th scope="row">') >= tables


LOADED = """\
import json, sys
from airflow import plugins_manager
plugins, errors = plugins_manager._get_plugins()
print(json.dumps({
    "plugins": sorted(each.name for each in plugins),
    "errors": sorted(errors),
    "timetables": sorted(plugins_manager.get_timetables_plugins()),
    "links": sorted(type(link).__name__ for link in plugins_manager.get_operator_extra_links()),
    "pages": [each["url_prefix"] for each in plugins_manager.get_fastapi_plugins()[0]],
    "modules": sorted(sys.modules),
}))
"""


def loaded(plugins: Path) -> dict[str, Any]:
    """What a process of Airflow's that needs a timetable has loaded."""
    names = os.environ | {
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(plugins))),
    }
    ran = subprocess.run([sys.executable, "-c", LOADED], env=names, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_a_process_that_loads_plugins_for_a_timetable_imports_no_api_server() -> None:
    found = loaded(ROOT / "plugins")
    assert (found["plugins"], found["errors"]) == (["lyrebird_pages", "lyrebird_schedules"], [])
    assert found["timetables"] == ["supervision.on_request.DaysOnRequest"]
    assert found["pages"] == ["/lyrebird"]
    # Airflow's task SDK itself imports data models that lie beside the API server, and nothing of the server.
    server = ("airflow.api_fastapi.app", "airflow.api_fastapi.core_api.security", "fastapi", "starlette")
    heavy = (*server, "supervision.pages")
    assert [name for name in found["modules"] if name.startswith(heavy)] == []


def test_a_fault_in_the_pages_leaves_timetable_and_links(tmp_path: Path) -> None:
    plugins = shutil.copytree(ROOT / "plugins", tmp_path / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    for broken in ("lyrebird_pages_plugin.py", "supervision/pages/frame.py", "supervision/pages/serving.py"):
        (plugins / broken).write_text("raise ImportError\n")
    found = loaded(plugins)
    assert (found["plugins"], found["errors"]) == (["lyrebird_schedules"], [str(plugins / "lyrebird_pages_plugin.py")])
    assert found["timetables"] == ["supervision.on_request.DaysOnRequest"]
    assert found["links"] == ["ApplicationLogLink", "AuditResultLink"]
