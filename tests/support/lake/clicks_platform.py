"""Kafka, Airflow and an S3 server with accounts of their own, for the topic of `tests.support.lake.clicks`."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from demo.airflow import Airflow
from include.clock import SystemClock
from include.local.ports import free_port
from include.local.services import service
from include.log.kafka.log import KafkaAdmin
from include.log.ports import TopicSpec
from include.settings.connections import Kafka, StoreSettings
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT, cache_folder
from include.store.s3 import S3Store, store_of
from tests.support.lake import clicks
from tests.support.lake.clicks import FIXED, SEQUENCE, WRONG, backup, cuts_of, partitioned
from tests.support.lake.threaded_groups import ListingReader

__all__ = ["DAYS", "FOLDERS", "TOPIC", "Accounts", "Lake", "declare", "groups", "until"]

TOPIC = "clicks"
FOLDERS = {name: f"lake/{name}" for name in ("raw", "clicks", "packed", "right", "right_packed")}
DAYS = range(3)
_PROGRAM = PROJECT_ROOT / "spark_apps" / "backfill_lake.py"
READS = ["s3:GetObject", "s3:ListBucket", "s3:PutObject", "s3:AbortMultipartUpload"]


def until(what: str, ask: Callable[[], Any], within_s: float) -> Any:
    """The first truthy answer."""
    end = time.monotonic() + within_s
    while not (answer := ask()):
        assert time.monotonic() < end, f"{what}: not within {within_s:.0f} s"
        time.sleep(0.5)
    return answer


class Accounts:
    """An S3 server where `writer` may read and write, and `eraser` may delete, too."""

    def __init__(self, folder: Path) -> None:
        import boto3

        self.binary = str(cache_folder() / f"s3-{service('s3').version}" / "versitygw")
        self.port = free_port(set())
        self.endpoint = f"http://127.0.0.1:{self.port}"
        for name in ("iam", "objects"):
            (folder / name).mkdir(parents=True)
        self.process = subprocess.Popen(
            [
                *(self.binary, "--port", f"127.0.0.1:{self.port}", "--quiet", "--health", "/healthz"),
                *("--iam-dir", str(folder / "iam"), "posix", str(folder / "objects")),
            ],
            env={"ROOT_ACCESS_KEY": "root", "ROOT_SECRET_KEY": "root-secret", "PATH": os.environ["PATH"]},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until("the S3 server has accounts", lambda: self._user("writer"), 20)
        assert self._user("eraser")
        root = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="root",
            aws_secret_access_key="root-secret",
            region_name="us-east-1",
        )
        root.create_bucket(Bucket="lake")
        root.put_bucket_policy(Bucket="lake", Policy=json.dumps(self._policy()))
        root.close()

    def _user(self, name: str) -> bool:
        made = subprocess.run(
            [
                *(self.binary, "admin", "--access", "root", "--secret", "root-secret"),
                *("--endpoint-url", self.endpoint, "create-user"),
                *("--access", name, "--secret", f"{name}-secret", "--role", "user"),
            ],
            capture_output=True,
            check=False,
        )
        return made.returncode == 0

    @staticmethod
    def _policy() -> dict[str, Any]:
        where = ["arn:aws:s3:::lake", "arn:aws:s3:::lake/*"]
        allowed = {"writer": READS, "eraser": [*READS, "s3:DeleteObject"]}
        return {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"AWS": [name]}, "Action": actions, "Resource": where}
                for name, actions in allowed.items()
            ],
        }

    def settings(self, name: str) -> dict[str, str]:
        return {"endpoint": self.endpoint, "bucket": "lake", "access_key": name, "secret_key": f"{name}-secret"}

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)


class Lake:
    """Kafka, Airflow and the bucket, with a deployment of its own."""

    def __init__(self, state: Path, env: Mapping[str, str], accounts: Accounts) -> None:
        self.state, self.kafka, self.accounts = state, Deployment.load().one("kafka", Kafka), accounts
        self.folder = Path(os.environ["LYREBIRD_DEPLOYMENT"])
        self.airflow = Airflow(
            env["LYREBIRD_AIRFLOW"], env["LYREBIRD_AIRFLOW_USER"], env["LYREBIRD_AIRFLOW_PASSWORD"], SystemClock()
        )
        self.store: S3Store = store_of(Deployment.load().one("store", StoreSettings))
        KafkaAdmin(self.kafka.bootstrap, self.kafka.options).ensure(
            TopicSpec(TOPIC, clicks.PARTITIONS, {"retention.ms": "-1"})
        )
        midnight = dt.datetime.combine(dt.datetime.now(dt.UTC).date(), dt.time(), dt.UTC)
        self.begin_ms = int(midnight.timestamp() * 1000) - len(DAYS) * clicks.DAY_MS

    def day(self, number: int) -> str:
        return clicks.day(self.begin_ms + number * clicks.DAY_MS)

    def reader(self, prefix: str) -> ListingReader:
        since, until_ = (dt.date.fromisoformat(self.day(number)) for number in (-1, 5))
        return ListingReader(self.store, prefix, TOPIC, since, until_)

    def succeed(self, dag: str, conf: Mapping[str, Any] | None = None) -> str:
        run = self.airflow.trigger(dag, conf)
        self.succeeded(dag, run)
        return run

    def succeeded(self, dag: str, run: str) -> None:
        state = self.airflow.wait(dag, run, 600)
        logs = [
            self.airflow.log(dag, run, task["task_id"], task["try_number"] or 1)[-3000:]
            for task in self.airflow.tasks(dag, run)
            if state != "success" and task["state"] != "success"
        ]
        assert state == "success", "\n".join(logs)

    def kill_writer(self, prefix: str) -> None:
        """End the backfill's driver when it has begun."""

        def drivers() -> list[psutil.Process]:
            found = psutil.process_iter(["cmdline"])
            return [each for each in found if (each.info["cmdline"] or ["", ""])[1:2] == [str(_PROGRAM)]]

        until("the backfill has begun", lambda: any(self.store.list(f"{prefix}/_backfill/")), 600)
        victim = until("it has a driver", drivers, 10)[0]
        victim.kill()

    def restart(self, application: str) -> None:
        """As an operator gives a stream new deployment files."""
        from supervision.run_folder import RunFolder

        dag = f"stream_{application}"
        run = self.airflow.running(dag)
        self.airflow._call("PATCH", f"/api/v2/dags/{dag}/dagRuns/{run}", json={"state": "success"})
        folder = RunFolder(self.state / "run" / application)
        until(f"{application} has ended", lambda: not folder.held(), 300)
        self.airflow.trigger(dag)

    def heads(self, name: str) -> dict[int, int]:
        heads: dict[int, int] = {}
        for partition, _, after in cuts_of(self.store, FOLDERS[name], TOPIC, 1):
            heads[partition] = max(heads.get(partition, 0), after)
        return heads

    def stored(self, ends: Mapping[int, int], *names: str) -> bool:
        found = [self.heads(name) for name in names]
        return all(heads.get(partition, 0) >= end for heads in found for partition, end in ends.items())

    def backfilled_by_airflow(self, conf: Mapping[str, Any]) -> int:
        """Airflow's own backfill, a run for each day; how many they were."""
        first, last = (f"{self.day(number)}T00:00:00Z" for number in (DAYS[0], DAYS[-1]))
        asked = {"dag_id": "lake_backfill", "from_date": first, "to_date": last, "dag_run_conf": dict(conf)}
        made = self.airflow._call("POST", "/api/v2/backfills", json={**asked, "max_active_runs": 2})
        path = f"/api/v2/backfills/{made['id']}"
        until("Airflow's backfill is over", lambda: self.airflow.get(path)["completed_at"], 1500)
        runs = self.airflow.get("/api/v2/dags/lake_backfill/dagRuns", run_type=["backfill"])["dag_runs"]
        for run in runs:
            self.succeeded("lake_backfill", run["dag_run_id"])
        return len(runs)


def groups(*versions: Any) -> dict[str, Any]:
    """Two formats, each by a parser that has the bug at first, and by one that never had it."""
    now = {"application": "right", "run": "schedule"}
    return {
        "raw": backup(TOPIC, FOLDERS["raw"], application="raw"),
        "clicks": partitioned(TOPIC, FOLDERS["clicks"], *versions),
        "packed": partitioned(TOPIC, FOLDERS["packed"], *versions, form=SEQUENCE),
        "right": partitioned(TOPIC, FOLDERS["right"], FIXED, **now),
        "right_packed": partitioned(TOPIC, FOLDERS["right_packed"], FIXED, form=SEQUENCE, **now),
    }


def declare(folder: Path, kafka: Mapping[str, str], accounts: Accounts) -> None:
    folder.mkdir()
    shutil.copy(PROJECT_ROOT / "include" / "deployment" / "alerts.yaml", folder)
    streams = {
        "raw": {"entry": "spark_apps/lake_backup.py"},
        "clicks": {"entry": "spark_apps/lake_partition.py"},
    }
    sections = {
        "kafka": kafka,
        "store": accounts.settings("writer"),
        "expiry": accounts.settings("eraser"),
        "applications": streams,
    }
    (folder / "platform.yaml").write_text(json.dumps(sections))
    clicks.write_groups(folder, groups(WRONG))
