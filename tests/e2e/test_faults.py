"""Everything that can die is killed while orders run; afterwards search is the truth and nothing is there twice."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import psutil
import pytest

from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.record.version import from_headers

pytestmark = pytest.mark.timeout(900)

APPLICATIONS = ("capture-shop", "assemble_orders", "index_orders")
SERVERS = ("kafka", "elasticsearch", "airflow-triggerer", "airflow-scheduler")


def _kill(pid: int | None) -> int:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def _python_driver(submit_pid: int) -> int:
    """The Python driver that spark-submit runs, or spark-submit's own process before it has one."""
    for child in psutil.Process(submit_pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # Of its workers some end in between; a zombie has no command line.
            if any("spark_apps/" in part for part in child.cmdline()):
                return child.pid
    return submit_pid


def test_every_part_may_be_killed_while_orders_run(platform: Any, eventually: Any) -> None:
    def generation(application: str) -> tuple[Any, Any]:
        run = platform.run_folder(application)
        return run.get("token"), run.get("pid")

    with platform.ordering(rate=4) as shop:
        for application in APPLICATIONS:
            before = generation(application)
            pid = before[1] if application == "capture-shop" else _python_driver(before[1])
            _kill(pid)
            eventually(
                f"{application} runs again", lambda a=application, b=before: generation(a)[1] not in (None, b[1]), 120
            )
        before = generation("capture-shop")
        _kill(platform.run_folder("capture-shop")["guardian_pid"])
        eventually(
            "the capture runs again without its guardian", lambda: generation("capture-shop")[0] != before[0], 120
        )
        for server in SERVERS:
            dead = _kill(platform.server_pid(server))
            eventually(f"{server} runs again", lambda s=server, d=dead: platform.server_pid(s) not in (None, d), 120)
            time.sleep(5)
        placed = shop.counts.placed
    assert placed > 50
    result = platform.wait_until_equal(within_s=300)
    assert result.equal, result.explain()
    assert result.searchable >= placed


def test_the_audit_finds_nothing(platform: Any) -> None:
    run = platform.airflow.trigger("audit_search")
    state = platform.airflow.wait("audit_search", run, 240)
    assert state == "success", [
        platform.airflow.log("audit_search", run, task["task_id"], task["try_number"] or 1)[-3000:]
        for task in platform.airflow.tasks("audit_search", run)
    ]


def test_no_key_and_version_stands_twice_on_any_topic(platform: Any) -> None:
    reader = KafkaReader(platform.kafka.bootstrap, platform.kafka.options)
    admin = KafkaAdmin(platform.kafka.bootstrap, platform.kafka.options)
    seen: Counter[tuple[str, bytes | None, int, bool]] = Counter()
    topics = [t for t in admin.names() if not t.endswith((".requests", ".answers", ".dead"))]
    for topic in topics:
        begin, end = reader.begin_offsets(topic), reader.end_offsets(topic)
        for partition in begin:
            for record in reader.read(topic, partition, begin[partition], end[partition]):
                if topic.endswith(".resolved") and record.value is None:
                    continue  # deltas that a full map replaced
                seen[topic, record.key, from_headers(record.headers), record.value is None] += 1
    assert sum(seen.values()) > 100
    assert {k: n for k, n in seen.items() if n > 1} == {}
    reader.close()
