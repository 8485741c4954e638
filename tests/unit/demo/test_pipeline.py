"""Which runs the demo starts, and which it leaves alone."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from demo import pipeline
from demo.airflow import Airflow
from demo.extras import DemoPart
from include.clock import ManualClock
from include.errors import Terminal

SHOP = DemoPart(name="shop", sources=("shop",), streams=("stream_a",))
ADS = DemoPart(name="ads", sources=("ads",), streams=("stream_b",), verdicts=("audit",))


class Ticking(ManualClock):
    """Runs are told apart by the time at which they were asked for."""

    def now_us(self) -> int:
        self.advance(0.001)
        return super().now_us()


class Server:
    """Airflow's REST interface over a list of runs."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []

    def add(self, dag: str, conf: dict[str, Any] | None, state: str = "running") -> None:
        self.runs.append({"dag_id": dag, "dag_run_id": f"run_{len(self.runs)}", "conf": conf, "state": state})

    def started(self) -> list[tuple[str, str | None]]:
        return [(run["dag_id"], (run["conf"] or {}).get("source")) for run in self.runs]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        match request.url.path.split("/")[3:]:
            case ["dags"]:
                names = ("source_snapshot", "source_replicate", "stream_a", "stream_b", "audit")
                return httpx.Response(200, json={"dags": [{"dag_id": name} for name in names]})
            case ["dags", dag, "dagRuns"] if request.method == "POST":
                body = json.loads(request.content)
                self.runs.append({"dag_id": dag, **body, "state": "queued"})
                return httpx.Response(200, json=body)
            case ["dags", dag, "dagRuns"]:
                states = request.url.params.get_list("state")
                found = [run for run in self.runs if run["dag_id"] == dag and run["state"] in states]
                return httpx.Response(200, json={"dag_runs": found})
            case ["dags", _, "dagRuns", run_id]:
                return httpx.Response(200, json=next(run for run in self.runs if run["dag_run_id"] == run_id))
            case _:
                return httpx.Response(201, json={"access_token": "token"})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def airflow(server: Server) -> Airflow:
    made = Airflow("http://airflow", "admin", "secret", Ticking())
    made._http = httpx.Client(base_url="http://airflow", transport=httpx.MockTransport(server))
    return made


def test_each_source_of_the_parts_is_given_a_snapshot_and_each_stream_a_run(airflow: Airflow, server: Server) -> None:
    snapshots = pipeline.start(airflow, [SHOP, ADS])
    assert len(set(snapshots)) == 2
    assert server.started() == [
        ("source_snapshot", "shop"),
        ("source_snapshot", "ads"),
        ("stream_a", None),
        ("stream_b", None),
    ]


def test_a_source_that_is_captured_already_is_left_alone_and_the_other_is_not(airflow: Airflow, server: Server) -> None:
    server.add("source_replicate", {"source": "shop", "unless_running": True})
    server.add("stream_a", None)
    assert len(pipeline.start(airflow, [SHOP, ADS])) == 1
    assert server.started()[2:] == [("source_snapshot", "ads"), ("stream_b", None)]


def test_the_snapshot_of_one_source_is_not_taken_for_that_of_another(airflow: Airflow, server: Server) -> None:
    server.add("source_snapshot", {"source": "shop", "mode": "auto"})
    pipeline.start(airflow, [ADS])
    assert ("source_snapshot", "ads") in server.started()


def test_a_run_that_has_ended_is_not_under_way(airflow: Airflow, server: Server) -> None:
    server.add("source_replicate", {"source": "shop"}, "failed")
    assert airflow.running("source_replicate", {"source": "shop"}) is None


def test_each_snapshot_is_awaited_and_one_that_failed_is_told_of(airflow: Airflow, server: Server) -> None:
    server.add("source_snapshot", {"source": "shop"}, "success")
    server.add("source_snapshot", {"source": "ads"}, "failed")
    pipeline.await_snapshots(airflow, ["run_0"])
    with pytest.raises(Terminal, match="snapshot failed"):
        pipeline.await_snapshots(airflow, ["run_0", "run_1"])
