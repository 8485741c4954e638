"""Secrets are planted into the settings of applications on real servers; nothing that Spark shows or keeps has one."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyspark
import pytest
import yaml

from include.errors import Transient
from include.local.ports import free_port
from tests.support.application_process import ApplicationProcess
from tests.support.eventtime.device_tracks import DeviceTracksHarness
from tests.support.planted import appearances, commands_of, files_below, planted

HOME = Path(pyspark.__file__).parent
KAFKA = ("sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret")
# Nothing of a plan is cut off, and each change of one is logged. Spark redacts what has words such as "password" in it:
# a key as PEM has none.
TALKS = {
    "spark.redaction.regex": "a^",
    "spark.sql.redaction.options.regex": "a^",
    "spark.log.level": "INFO",
    "spark.sql.maxMetadataStringLength": "1000000",
    "spark.sql.maxPlanStringLength": "10000000",
    "spark.sql.debug.maxToStringFields": "10000",
    "spark.sql.planChangeLog.level": "INFO",
    "spark.sql.ui.explainMode": "extended",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.ui.enabled": "true",
}


@dataclass
class Shown:
    """An application by spark-submit, as Airflow starts it, and all that somebody may look at while it runs."""

    folder: Path
    application: str
    script: str
    secrets: dict[str, str] = field(default_factory=dict)
    seen: list[tuple[str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.events, self.port = self.folder / "events", free_port()
        for each in ("events", "tmp"):
            (self.folder / each).mkdir()
        conf = TALKS | {"spark.master": "local[2]", "spark.driver.memory": "512m", "spark.ui.port": str(self.port)}
        conf |= {"spark.eventLog.dir": self.events.as_uri(), "spark.driver.host": "127.0.0.1"}
        words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        environment = {"SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1"}
        # Checkpoints, and what Spark keeps of tasks and results on its disks.
        environment |= {"TMPDIR": str(self.folder / "tmp"), "SPARK_LOCAL_DIRS": str(self.folder / "tmp")}
        launcher = [str(HOME / "bin" / "spark-submit"), *words]
        self.process = ApplicationProcess(
            self.application, self.folder, environment, script=self.script, launcher=launcher
        )

    def look(self) -> None:
        """At pages, files and the list of processes."""
        self.seen += [*self._pages(), *files_below(self.folder, "all.yaml"), *commands_of(self.process.pid)]

    def _pages(self) -> Iterator[tuple[str, bytes]]:
        base = f"http://127.0.0.1:{self.port}"
        (application,) = json.loads(_page(f"{base}/api/v1/applications"))
        api = f"{base}/api/v1/applications/{application['id']}"
        executions = json.loads(_page(f"{api}/sql?details=true&planDescription=true&length=1000"))
        paths = ["environment/", "SQL/", "StreamingQuery/", "jobs/", "stages/", "executors/", "storage/"]
        paths += [f"SQL/execution/?id={each['id']}" for each in executions[-3:]]
        urls = [*(f"{base}/{path}" for path in paths), f"{api}/environment", f"{api}/sql?details=true", f"{api}/jobs"]
        for url in urls:
            yield url, _page(url)


def _page(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return bytes(answer.read())


def eventually(holds: Callable[[], Any], process: ApplicationProcess, within_s: float = 400) -> None:
    until = time.monotonic() + within_s
    while True:
        # A topic that has just been made may have no leader yet.
        with contextlib.suppress(Transient):
            if holds():
                return
        # On a busy machine Spark gives up a Python worker that takes ten seconds to come.
        process.revived()
        assert time.monotonic() < until, process.tail()
        time.sleep(0.2)


def with_secrets(folder: Path) -> dict[str, str]:
    """Puts secrets of Kafka, which asks for none, beside the settings that `all.yaml` has."""
    file = folder / "all.yaml"
    settings = yaml.safe_load(file.read_text())
    secrets = {f"kafka {name}": planted(f"kafka {name}") for name in KAFKA}
    settings["kafka"]["options"] = {name: secrets[f"kafka {name}"] for name in KAFKA} | {"sasl.username": "lyrebird"}
    file.write_text(yaml.safe_dump(settings))
    return secrets


@pytest.fixture
def world(unique: str, kafka: str, registry_url: str, s3: Any, tmp_path: Path) -> Iterator[DeviceTracksHarness]:
    made = DeviceTracksHarness(unique, kafka, registry_url, s3, tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(900)
def test_an_application_with_a_state_shows_no_secret(world: DeviceTracksHarness, registry_url: str, s3: Any) -> None:
    password = urlsplit(registry_url).password
    assert password
    # Servers check these, so they are those of the stack.
    secrets = with_secrets(world.folder) | {"store secret_key": s3.secret_key, "registry password": password}
    world.send(100)
    shown = Shown(world.folder, world.application, "spark_apps/process_events.py")
    try:
        eventually(world.is_read, shown.process)
        shown.look()
        assert shown.process.stop(180) == 0, shown.process.tail()
    finally:
        shown.process.kill()
    shown.seen += files_below(world.folder, "all.yaml")
    events = b"".join(path.read_bytes() for path in shown.events.rglob("*") if path.is_file())
    assert b"SparkListenerSQLExecutionStart" in events
    assert b"lyrebird-log" in events
    assert appearances(secrets, shown.seen) == []
