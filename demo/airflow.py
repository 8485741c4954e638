"""Airflow's REST interface, as far as the demo and the end-to-end tests need it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from include.clock import Clock, SystemClock, iso
from include.errors import Terminal, Transient

__all__ = ["Airflow"]

_ENDED = ("success", "failed")
_PATIENCE_S = 90.0


class Airflow:
    """One signed-in client; a token that has run out is asked for again."""

    def __init__(self, url: str, user: str, password: str, clock: Clock | None = None) -> None:
        self._user, self._password = user, password
        self._clock = clock or SystemClock()
        self._http = httpx.Client(base_url=url, timeout=20)
        self._token = ""

    def wait_for_dags(self, dag_ids: set[str], within_s: float = 120) -> None:
        """Return once all these DAGs are parsed; raises `Terminal` with Airflow's import errors after `within_s`."""
        end_s = self._clock.monotonic_s() + within_s
        while True:
            listed = {dag["dag_id"] for dag in self.get("/api/v2/dags", limit=200)["dags"]}
            if dag_ids <= listed:
                return
            if self._clock.monotonic_s() > end_s:
                errors = [e["stack_trace"].splitlines()[-1] for e in self.get("/api/v2/importErrors")["import_errors"]]
                raise Terminal("DAGs are missing", missing=sorted(dag_ids - listed), import_errors=errors)
            self._clock.sleep(0.5)

    def unpause(self, dag_id: str) -> None:
        """Let the DAG's runs start."""
        self._call("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})

    def running(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str | None:
        """A run of the DAG that is queued or running, with these Params among its own, or None."""
        runs = self.get(f"/api/v2/dags/{dag_id}/dagRuns", state=["running", "queued"], limit=100)["dag_runs"]
        wanted = (conf or {}).items()
        return next((str(run["dag_run_id"]) for run in runs if wanted <= (run["conf"] or {}).items()), None)

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run by hand; its id. `Terminal` carries Airflow's own words when the Params are refused."""
        # An id of ours, so that a call whose answer was lost can be made again without a second run.
        run_id = f"manual__{iso(self._clock.now_us())}"
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf or {})}
        try:
            self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)
        except Terminal as refused:
            if refused.details.get("status") != httpx.codes.CONFLICT:
                raise
        return run_id

    def ensure_running(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """The run with these Params that is under way (it may have survived a restart of the stack), else a new one."""
        self.unpause(dag_id)
        return self.running(dag_id, conf) or self.trigger(dag_id, conf)

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """One run, as Airflow tells it."""
        return self.get(f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id)}")

    def wait(self, dag_id: str, run_id: str, within_s: float) -> str:
        """State in which the run ended; `Terminal` when it has not after `within_s`."""
        end_s = self._clock.monotonic_s() + within_s
        while True:
            state = str(self.run(dag_id, run_id)["state"])
            if state in _ENDED:
                return state
            if self._clock.monotonic_s() > end_s:
                raise Terminal(
                    "a DAG run has not ended in time",
                    dag=dag_id,
                    run=run_id,
                    within_s=within_s,
                    state=state,
                    fix="Look at its task log in Airflow.",
                )
            self._clock.sleep(0.5)

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The run's task instances."""
        found = self.get(f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances")["task_instances"]
        return list(found)

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int = 1) -> str:
        """A task's log as text."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances/{task_id}/logs/{attempt}"
        content = self.get(path, full_content="true").get("content", [])
        return "\n".join(str(line.get("event", line)) if isinstance(line, dict) else str(line) for line in content)

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """GET as JSON."""
        return self._call("GET", path, params=params)

    def close(self) -> None:
        """Give up the connection."""
        self._http.close()

    def _call(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Call until Airflow answers, for a minute and a half: it is slow while it starts and may be restarted."""
        end_s = self._clock.monotonic_s() + _PATIENCE_S
        while True:
            try:
                return self._once(method, path, **more)
            except Transient:
                if self._clock.monotonic_s() > end_s:
                    raise
                self._clock.sleep(1)

    def _once(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        for attempt in (1, 2):
            try:
                if not self._token:
                    self._sign_in()
                answer = self._http.request(method, path, headers={"Authorization": f"Bearer {self._token}"}, **more)
            except httpx.TransportError as error:
                raise Transient("Airflow does not answer", system="airflow", reason=repr(error)) from error
            if answer.status_code == httpx.codes.UNAUTHORIZED and attempt == 1:
                self._token = ""
                continue
            if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
                raise Transient("Airflow failed", system="airflow", path=path, status=answer.status_code)
            if answer.is_error:
                raise Terminal("Airflow refused", path=path, status=answer.status_code, answer=answer.text[:500])
            found: dict[str, Any] = answer.json() if answer.content else {}
            return found
        raise Terminal("Airflow does not take the account", user=self._user, fix="See LYREBIRD_AIRFLOW_PASSWORD.")

    def _sign_in(self) -> None:
        answer = self._http.post("/auth/token", json={"username": self._user, "password": self._password})
        if answer.is_error:
            raise Terminal("Airflow refused the account", user=self._user, status=answer.status_code)
        self._token = answer.json()["access_token"]
