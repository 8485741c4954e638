"""A whole platform for end-to-end tests: every server, Airflow, capture, assembler, indexer, on free ports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pytest

from demo import pipeline
from demo.airflow import Airflow
from demo.comparison import DemoComparison, compare
from demo.extras import ORDER_SEARCH
from demo.orders_index import OrdersIndex
from demo.shop.connection import ShopServer
from demo.shop.generator import Shop
from demo.shop.truth import truth
from include.clock import SystemClock
from include.errors import Transient
from include.index.generations.create import make_index
from include.local.recipes.probe import get_json
from include.local.stack import Stack
from include.settings.connections import Elasticsearch, Kafka
from include.settings.deployment import Deployment
from include.settings.environment import deployment_folder

__all__ = ["Ordering", "Platform", "eventually", "running_platform"]


@dataclass
class Platform:
    """The running platform, and what a test does with it. Its deployment files are a copy that tests may add to."""

    state: Path
    stack: Stack
    env: dict[str, str]
    airflow: Airflow
    index: OrdersIndex
    shop_server: ShopServer
    deployment: Path
    seed: int = field(default=100)

    def run_folder(self, application: str, file: str = "run.json") -> dict[str, Any]:
        path = self.state / "run" / application / file
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def succeed(self, dag: str, asked: dict[str, Any] | None = None, within_s: float = 600) -> str:
        """Start a run as its form does, await its success; its id."""
        run = self.airflow.trigger(dag, asked)
        state = self.airflow.wait(dag, run, within_s)
        assert state == "success", self.failures(dag, run)
        return run

    def failures(self, dag: str, run: str) -> dict[str, str]:
        """The failed tasks of a run, each with its log's end."""
        return {
            task["task_id"]: self.airflow.log(dag, run, task["task_id"], task["try_number"] or 1)[-3000:]
            for task in self.airflow.tasks(dag, run)
            if task["state"] == "failed"
        }

    def mails(self, *words: str) -> list[dict[str, Any]]:
        """Mails whose subject has all these words, the oldest first."""
        login = self.env["LYREBIRD_MAIL_USER"], self.env["LYREBIRD_MAIL_PASSWORD"]
        found: list[dict[str, Any]] = get_json(f"{self.env['LYREBIRD_MAIL']}/messages.json", 5, login)
        return [mail for mail in found if all(word in mail["subject"] for word in words)]

    def lyrebird(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, on this platform."""
        return subprocess.run(
            [sys.executable, "-m", "include", *arguments], capture_output=True, text=True, check=False, timeout=180
        )

    def told(self, *arguments: str) -> dict[str, Any]:
        """What a command that succeeds prints with --json."""
        done = self.lyrebird(*arguments, "--json")
        assert done.returncode == 0, (arguments, done.stdout[-2000:], done.stderr[-2000:])
        return dict(json.loads(done.stdout))

    def server_pid(self, name: str) -> int | None:
        return next((p.pid for p in self.stack.status().processes if p.process == name and p.state == "running"), None)

    @property
    def kafka(self) -> Kafka:
        return Deployment.load().one("kafka", Kafka)

    def as_root(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run them in one session of the shop's server; rows of the last one."""
        server = self.shop_server
        with (
            pymysql.connect(
                host=server.host,
                port=server.port,
                user="root",
                password=self.env["LYREBIRD_MYSQL_ROOT_PASSWORD"],
                database=server.database,
                autocommit=True,
            ) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def ordering(self, rate: float) -> Ordering:
        self.seed += 1
        return Ordering(Shop(self.shop_server.connect, self.seed), rate)

    def compare(self) -> DemoComparison:
        connection = self.shop_server.connect()
        try:
            return compare(truth(connection), self.index.bodies())
        finally:
            connection.close()

    def wait_until_equal(self, within_s: float) -> DemoComparison:
        end = time.monotonic() + within_s
        last: DemoComparison | Exception = TimeoutError()
        while time.monotonic() < end:
            try:
                last = self.compare()
                if last.equal:
                    return last
            except Transient as error:
                last = error
            time.sleep(0.5)
        if isinstance(last, Exception):
            raise last
        return last


class Ordering:
    """Orders that run in the background while a test does its worst; afterwards the shop is quiet."""

    def __init__(self, shop: Shop, rate: float) -> None:
        self.shop = shop
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(rate,), daemon=True)

    def _work(self, rate: float) -> None:
        try:
            self.shop.run(rate)
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            self._failure = error

    def __enter__(self) -> Shop:
        self._thread.start()
        return self.shop

    def __exit__(self, *_: object) -> None:
        self.shop.stop()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        self.shop.quiesce()
        self.shop.close()


def eventually(what: str, ask: Callable[[], Any], within_s: float, every_s: float = 0.5) -> Any:
    """The first truthy answer; fails by name after `within_s`."""
    end = time.monotonic() + within_s
    answer: Any = None
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(every_s)
    pytest.fail(f"{what}: not within {within_s:.0f} s; last answer {answer!r}")


def _made() -> bool:
    """Elasticsearch may take its time for its first index on a busy machine."""
    try:
        make_index(Deployment.load(), "orders")
    except Transient:
        return False
    return True


@contextmanager
def running_platform(state: Path) -> Iterator[Platform]:
    """A platform in this folder, with five orders that are searchable; the environment names it meanwhile."""
    stack = Stack(state=state, free_ports=True)
    saved = dict(os.environ)
    try:
        deployment = shutil.copytree(deployment_folder(), state / "deployment")
        os.environ["LYREBIRD_DEPLOYMENT"] = str(deployment)
        env = stack.up()
        os.environ.update({name: value for name, value in env.items() if name.startswith("LYREBIRD_")})
        os.environ["LYREBIRD_STATE"] = str(state)
        shop_server = ShopServer.from_environment()
        with Shop(shop_server.connect, 0) as shop:
            shop.prepare()
        eventually("the index is made", _made, 120)
        airflow = Airflow(
            env["LYREBIRD_AIRFLOW"], env["LYREBIRD_AIRFLOW_USER"], env["LYREBIRD_AIRFLOW_PASSWORD"], SystemClock()
        )
        index = OrdersIndex(Deployment.load().one("elasticsearch", Elasticsearch))
        found = Platform(state, stack, env, airflow, index, shop_server, deployment)
        snapshots = pipeline.start(airflow, [ORDER_SEARCH])
        assert snapshots
        pipeline.await_snapshots(airflow, snapshots)
        with Shop(shop_server.connect, 1) as shop:
            shop.run(1000, orders=5)
            shop.quiesce()
        first = found.wait_until_equal(300)
        assert first.equal, first.explain()
        yield found
        airflow.close()
        found.index.close()
    finally:
        stack.down()
        os.environ.clear()
        os.environ.update(saved)
