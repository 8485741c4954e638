"""A standalone Spark on this machine whose workers come and go, each with one core and one executor for it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil
import pyspark
from pyspark.sql import SparkSession

from include.local.ports import free_port
from include.log.running.batches_spark import session

__all__ = ["SparkCluster"]

_HOST: Final = "127.0.0.1"
_EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
# Five JVMs start, on a machine that may be busy.
_COMES_WITHIN_S: Final = 600.0


class SparkCluster:
    """A master, and as many workers as were added. `session` once, or a driver of one's own; `close` at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._workers: list[psutil.Popen] = []
        self._spark: SparkSession | None = None
        self._master = self._start("master", "--port", str(self._port))
        self._wait(self._answers, "Spark's master")

    @property
    def url(self) -> str:
        """For `spark.master`."""
        return f"spark://{_HOST}:{self._port}"

    def session(self, **more: str) -> SparkSession:
        """The session, once there is an executor for each worker; `more` settings, with `_` for their dots."""
        conf = {name.replace("_", "."): value for name, value in more.items()} | {
            "spark.master": self.url,
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
            "spark.executor.memory": "512m",
            "spark.log.level": "ERROR",
        }
        self._spark = session("bench", conf)
        self.wait_for_executors()
        return self._spark

    def add(self) -> None:
        """One more worker; does not wait for it."""
        folder = self._folder / f"work-{len(self._workers)}"
        room = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder))
        self._workers.append(self._start("worker", *room, self.url))

    def kill(self) -> None:
        """End the first worker and its executor as a host ends that goes away: Spark makes no other for it."""
        worker = self._workers.pop(0)
        executors = self._executors_of(worker)
        for process in (worker, *executors):
            process.kill()
        worker.wait()

    @property
    def executors(self) -> int:
        """How many run."""
        return sum(len(self._executors_of(worker)) for worker in self._workers)

    def kill_python_worker(self) -> bool:
        """End one of the processes that do tasks in Python; False when there is none."""
        for worker in self._workers:
            for executor in self._executors_of(worker):
                # Below the executor is the daemon that forks them.
                workers = [each for daemon in executor.children() for each in daemon.children()]
                for each in workers[-1:]:
                    each.kill()
                    return True
        return False

    def wait_for_executors(self) -> None:
        """Until Spark has one for each worker."""
        self._wait(lambda: self._known() == len(self._workers), f"{len(self._workers)} executors")

    def cpu_s(self) -> float:
        """CPU seconds of the executors that are there, their Python included."""
        found = 0.0
        for worker in self._workers:
            for executor in self._executors_of(worker):
                for process in (executor, *executor.children(recursive=True)):
                    # One that ended meanwhile has become a part of what its parent waited for.
                    with contextlib.suppress(psutil.NoSuchProcess):
                        found += sum(process.cpu_times()[:4])
        return found

    def close(self) -> None:
        """End everything."""
        if self._spark is not None:
            self._spark.stop()
        for each in (*self._workers, self._master):
            each.terminate()
        for each in (*self._workers, self._master):
            try:
                each.wait(20)
            except psutil.TimeoutExpired:
                each.kill()

    def _start(self, role: str, *arguments: str) -> psutil.Popen:
        home = Path(pyspark.__file__).parent
        named = f"org.apache.spark.deploy.{role}.{role.capitalize()}"
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }
        with (self._folder / f"{role}-{len(self._workers)}.log").open("wb") as out:
            return psutil.Popen(
                [str(home / "bin" / "spark-class"), named, "--host", _HOST, "--webui-port", "0", *arguments],
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((_HOST, self._port), 1):
            return True
        return False

    def _known(self) -> int:
        if self._spark is None:
            return 0
        context: Any = self._spark.sparkContext
        # The driver is one of them.
        return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1

    @staticmethod
    def _executors_of(worker: psutil.Popen) -> list[psutil.Process]:
        found = []
        for each in worker.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if _EXECUTOR in each.cmdline():
                    found.append(each)
        return found

    def _wait(self, until: Callable[[], bool], what: str) -> None:
        before_s = time.monotonic() + _COMES_WITHIN_S
        while not until():
            ended = [each for each in (self._master, *self._workers) if each.poll() is not None]
            if ended or time.monotonic() > before_s:
                raise SystemExit(f"{what} did not come within {_COMES_WITHIN_S:g} s, see the logs in {self._folder}")
            time.sleep(0.1)
