"""Clients outlive a broker that is killed and started again: librdkafka's own faults end a process, not a test.

docs/adr/0001-offsets-of-a-group.md has the reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from include.errors import LyrebirdError
from include.log.kafka.log import KafkaAdmin, KafkaWriter
from include.log.ports import TopicSpec
from tests.support.log.broker import broker
from tests.support.paths import ROOT

RESTARTS = 5
CLIENTS = 3
CALLS = {"describe", "settings", "ensure", "names", "ends", "begins", "unended", "read", "survey", "commit"}


class Client:
    """A process that calls in a loop."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.told: dict[str, dict[str, int]] = {}
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        for line in self.process.stdout or ():
            self.told = json.loads(line)

    def answers(self) -> int:
        return sum(each["answered"] for each in self.told.values())


@contextmanager
def client(address: str, topic: str, group: str, log: Path) -> Iterator[Client]:
    words = [sys.executable, "-X", "faulthandler", "-m", "tests.support.log.kafka_calls", address, topic, group]
    pipe = subprocess.PIPE
    with (
        log.open("w") as said,
        subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=said, text=True) as process,
    ):
        try:
            yield Client(process)
        finally:
            if process.poll() is None:
                process.kill()


def eventually(check: Callable[[], Any]) -> None:
    until_s = time.monotonic() + 60
    while not check():
        assert time.monotonic() < until_s
        time.sleep(0.1)


@pytest.mark.timeout(400)
def test_every_call_of_the_product_outlives_a_broker_that_is_killed_five_times(tmp_path: Path, unique: str) -> None:
    with broker(tmp_path / "kafka") as kafka, ExitStack() as stack:
        topic, group = f"{unique}.orders", f"{unique}-group"
        KafkaAdmin(kafka.address).ensure(TopicSpec(topic, 1))
        writer = KafkaWriter(kafka.address, unique)
        writer.begin()
        writer.append(topic, b"k", b"v")
        writer.commit(group, {(topic, 0): 1})
        writer.close()
        logs = [tmp_path / f"client-{number}.log" for number in range(CLIENTS)]
        clients = [
            stack.enter_context(client(kafka.address, topic, f"{group}-{number}", log))
            for number, log in enumerate(logs)
        ]

        def lives() -> None:
            for each, log in zip(clients, logs, strict=True):
                assert each.process.poll() is None, f"ended with {each.process.returncode}: {log.read_text()[-2000:]}"

        def answered_anew(before: list[int]) -> bool:
            lives()
            return all(each.answers() > was for each, was in zip(clients, before, strict=True))

        for _ in range(RESTARTS):
            before = [each.answers() for each in clients]
            eventually(partial(answered_anew, before))
            kafka.kill()
            kafka.start()
            lives()
        before = [each.answers() for each in clients]
        eventually(lambda: answered_anew(before))

        def unanswered() -> set[str]:
            lives()
            calls = {*CALLS, "committed"}
            return {name for name in calls for each in clients if not each.told.get(name, {}).get("answered")}

        # On a busy machine a call may never have had its turn between two restarts.
        eventually(lambda: not unanswered())
        for each in clients:
            assert each.process.stdin
            each.process.stdin.close()
            assert each.process.wait(60) == 0


@pytest.mark.timeout(240)
def test_writers_that_commit_offsets_go_on_after_a_broker_is_killed(tmp_path: Path, unique: str) -> None:
    """docs/adr/0002-a-commit-that-never-returns.md: without a limit about one in fifteen waits for ever."""
    with broker(tmp_path / "kafka") as kafka:
        KafkaAdmin(kafka.address).ensure(TopicSpec(unique, 1))
        done, stop = dict.fromkeys(range(6), 0), threading.Event()

        def commits(number: int) -> None:
            writer = None
            while not stop.is_set():
                try:
                    writer = writer or KafkaWriter(kafka.address, f"{unique}-{number}", timeout_s=5)
                    writer.begin()
                    writer.append(unique, b"k", b"v")
                    writer.commit(f"{unique}-{number}", {(unique, 0): done[number] + 1})
                    done[number] += 1
                except LyrebirdError:
                    # As an application that ends and is started again.
                    if writer is not None:
                        writer.close()
                    writer = None
                time.sleep(0.05)

        def all_went_on(before: dict[int, int]) -> bool:
            return all(done[number] > before[number] for number in done)

        threads = [threading.Thread(target=commits, args=(number,), daemon=True) for number in done]
        for thread in threads:
            thread.start()
        eventually(lambda: all(done.values()))
        for pause_s in (0.0, 1.0, 2.0):
            kafka.kill()
            time.sleep(pause_s)
            kafka.start()
            before = dict(done)
            eventually(partial(all_went_on, before))
        stop.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
