"""The main job on a standalone Spark cluster: one connection is changed, nothing else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(900)

STREAMS = {"stream_assemble_orders": "assemble_orders", "stream_index_orders": "index_orders"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Cluster:
    """A master and two workers from the pyspark wheel, on loopback."""

    folder: Path
    port: int = field(default_factory=_free_port)
    ui_port: int = field(default_factory=_free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        import pyspark

        home = Path(pyspark.__file__).parent
        env = {
            **os.environ,
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self.folder / "work"),
        }
        with (self.folder / f"spark-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments], env=env, stdout=log, stderr=log, start_new_session=True
            )
        self.processes.append(process)
        return process

    def worker(self) -> subprocess.Popen[bytes]:
        return self.start(
            "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", str(_free_port()),
            "-c", "2", "-m", "2g", f"spark://127.0.0.1:{self.port}",
        )  # fmt: skip

    def master(self) -> subprocess.Popen[bytes]:
        return self.start(
            "org.apache.spark.deploy.master.Master",
            "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.ui_port),
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        import json

        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ui_port}/json/", timeout=2) as answer:
                return dict(json.load(answer))
        except OSError:
            return {}

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path, eventually: Any) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    try:
        found.master()
        eventually("the master answers", lambda: found.state(), 60)
        for _ in range(2):
            found.worker()
        eventually("two workers are there", lambda: found.state().get("aliveworkers") == 2, 60)
        yield found
    finally:
        found.stop()


def _use_master(platform: Any, eventually: Any, host: str, port: int | None) -> None:
    """Change the one connection, then start the streams afresh, as an operator would."""
    platform.airflow._call(
        "PATCH",
        "/api/v2/connections/spark_default",
        json={"connection_id": "spark_default", "conn_type": "spark", "host": host, "port": port},
    )
    for dag, application in STREAMS.items():
        run = platform.airflow.running(dag)
        if run is not None:
            platform.airflow._call("PATCH", f"/api/v2/dags/{dag}/dagRuns/{run}", json={"state": "failed"})
        lock = platform.state / "run" / application
        eventually(f"{application} is drained", lambda p=lock: not _held(p), 120)
        platform.airflow.trigger(dag)


def _held(folder: Path) -> bool:
    from supervision.run_folder import RunFolder

    return RunFolder(folder).held()


def test_the_main_job_runs_on_a_cluster_and_survives_a_killed_worker(
    platform: Any, cluster: Cluster, eventually: Any
) -> None:
    _use_master(platform, eventually, "spark://127.0.0.1", cluster.port)
    try:
        eventually("both applications run on the cluster", lambda: len(cluster.state().get("activeapps", [])) == 2, 180)
        with platform.ordering(rate=4) as shop:
            eventually("orders pass", lambda: shop.counts.placed > 40, 60)
            victim = cluster.processes[1]
            os.killpg(victim.pid, signal.SIGKILL)
            placed = shop.counts.placed
            eventually("more orders pass", lambda: shop.counts.placed > placed + 40, 60)
        result = platform.wait_until_equal(within_s=300)
        assert result.equal, result.explain()
    finally:
        _use_master(platform, eventually, "local[2]", None)
