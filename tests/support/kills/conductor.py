"""One scenario from its topic to its end: hosts are started, hit, waked and ended while something is written."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pydantic import SecretStr

from include.lake.definition import LakeGroup
from include.settings.connections import Kafka, StoreSettings
from tests.support.kills.fault_switch import Strike
from tests.support.kills.kafka_reader import Layout, Ran, end_of, read_topic
from tests.support.kills.program import Program, run
from tests.support.kills.scenarios import Blow, HostPlan, Kind, Scenario
from tests.support.kills.traffic import Traffic
from tests.support.kills.versioned_s3 import BUCKET, Versioned

__all__ = ["Conductor", "Host", "carry_on", "end", "group_of", "prefix_of", "until", "wake"]

_PATIENCE_S: Final = 60.0
# As long as a driver waits before it gives a lost range to another worker, and some more.
_TAKEN_OVER_S: Final = 1.3
_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["__main__", "tests.support.kills.preload"])
# To start a process asks all others whether they have ended; of two threads that ask one of them at once only one hears
# how it ended, and the other one is told 255.
_ASKING: Final = threading.Lock()


@dataclass
class Host:
    """A host that was started. `process` has been killed, is stopped, or runs."""

    process: Any
    folder: Path
    plan: HostPlan
    marks: list[tuple[Path, Blow]] = field(default_factory=list)

    def pids(self) -> set[int]:
        """Its own, its workers', as far as they are known."""
        found = {int(word) for name in ("workers",) if (self.folder / name).exists() for word in self._words(name)}
        return found | {self.process.pid}

    @property
    def exit_code(self) -> int | None:
        """None until it has ended."""
        with _ASKING:
            code: int | None = self.process.exitcode
        return code

    @property
    def stored(self) -> str:
        """What it says of its groups, while it serves and of what is left; another text as long as it stores."""
        groups = []
        for told in (self.folder / "progress.json", self.folder / "left" / "progress.json"):
            with contextlib.suppress(FileNotFoundError):
                groups += json.loads(told.read_text())["groups"].values()
        return str([(group["cuts"], group["records"], group["waiting"]) for group in groups])

    def _words(self, name: str) -> list[str]:
        return (self.folder / name).read_text().split()


def group_of(kind: Kind, number: int, topic: str, revision: int, *, big: bool) -> tuple[LakeGroup, Layout]:
    """The group of a run, in a layout that Hadoop's reader knows."""
    layout: Layout = "verbatim" if kind == "backup" else "offset" if number % 2 else "message_pack"
    sequence: dict[str, Any] = {"layout": layout}
    if not big and number % 3 == 0:
        sequence |= {"compression": "BLOCK", "block_bytes": 5_000}
    rule: dict[str, Any] = {"topics": "*", "format": {"sequence": sequence}}
    if kind == "partition":
        time_ = {"field": ["ms"], "unit": "ms", "behind_s": None, "ahead_s": None}
        drop = [{"field": ["type"], "one_of": ["ping"]}]
        parser = {"format": "json", "time": time_, "drop": drop}
        rule["versions"] = [{"version": 1, "added": "2026-01-01T00:00:00Z", "parser": parser}]
    sizes = {"max_bytes": 30_000_000, "record_bytes": 9_000} if big else {"max_bytes": 20_000, "record_bytes": 300}
    if not big:
        # Some cuts end as they have no room for another day, or for what is set aside; big ones need all of a day.
        sizes["max_folders"] = 1 + number % 3
    declared = {
        "kind": kind,
        "application": "lake",
        "topics": [topic],
        "prefix": prefix_of(number),
        "revision": revision,
        "policy": {"max_age_s": 1, **sizes},
        "rules": [rule],
        **({"offset_step": 1000} if kind == "backup" else {}),
    }
    return LakeGroup.model_validate(declared), layout


def prefix_of(number: int) -> str:
    """Each run has a folder of its own in the bucket."""
    return f"run/{number:04d}"


class Conductor:
    """Runs scenarios, in any number of threads."""

    def __init__(self, bootstrap: str, server: Versioned, folder: Path, unique: str) -> None:
        self.bootstrap, self._server, self._folder, self._unique = bootstrap, server, folder, unique
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def topic(self, number: int) -> str:
        """That of a run."""
        return f"{self._unique}.{number}"

    def make(self, topic: str, partitions: int) -> None:
        """A topic that is ready to be written."""
        self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)

    def ran(self, scenario: Scenario, problem: str = "") -> Ran:
        """What Kafka has of the run now; the topic goes."""
        topic = self.topic(scenario.number)
        logged = {} if problem else read_topic(self.bootstrap, topic, scenario.partitions)
        ends = {} if problem else {each: end_of(self.bootstrap, topic, each) for each in logged}
        _, layout = group_of(scenario.kind, scenario.number, topic, 1, big=scenario.big)
        self._admin.delete_topics([topic])[topic].result(30)
        prefix, generations = prefix_of(scenario.number), 1 + scenario.upgraded
        return Ran(
            str(scenario), scenario.number, scenario.kind, layout, prefix, topic, logged, ends, generations, problem
        )

    def run(self, scenario: Scenario) -> Ran:
        """The whole of it; whatever goes wrong is told, and no process is left."""
        began_s = time.time() - 1
        self.make(self.topic(scenario.number), scenario.partitions)
        hosts: list[Host] = []
        problem, committed = "", {}
        try:
            committed = self._live(scenario, hosts)
        except Exception as error:  # noqa: BLE001 - the run has failed, others go on
            problem = f"{type(error).__name__}: {error}"
            problem += "".join(f"\n{host.plan}: {_said(host.folder)}" for host in hosts)
        finally:
            for host in hosts:
                _put_down(host.pids(), began_s)
        ran = self.ran(scenario, problem)
        if not problem and {at: set(found) for at, found in ran.logged.items() if found} != committed:
            raise AssertionError(f"{scenario}: Kafka has other records than it promised to those who wrote")
        return ran

    def run_all(
        self, scenarios: Sequence[Scenario], at_once: int, told: Callable[[Ran], None] = lambda _: None
    ) -> list[Ran]:
        """All of them, so many at a time."""

        def one(scenario: Scenario) -> Ran:
            ran = self.run(scenario)
            told(ran)
            return ran

        with ThreadPoolExecutor(at_once) as threads:
            return list(threads.map(one, scenarios))

    def _live(self, scenario: Scenario, hosts: list[Host]) -> dict[int, set[int]]:
        topic = self.topic(scenario.number)
        sleepers: list[int] = []
        with Traffic(self.bootstrap, topic, scenario.number, scenario.partitions, big=scenario.big) as traffic:
            for number, plan in enumerate(scenario.hosts, 1):
                hosts.append(self.start(scenario, plan, number))
                self._hit(scenario, hosts[-1], last=number == len(scenario.hosts), sleepers=sleepers)
            time.sleep(_TAKEN_OVER_S)
            if scenario.wake == "early":
                wake(sleepers)
                time.sleep(0.3)
            traffic.end()
        *others, last = hosts
        end([last], {0})
        # Whoever is stopped still wakes when all is stored.
        wake(sleepers)
        fine = {0, -signal.SIGKILL} | ({3} if scenario.upgraded else set())
        end(others, fine)
        until(lambda: not any(map(_lives, set().union(*(host.pids() for host in hosts)))), "workers do not end")
        if scenario.upgraded:
            hosts.append(self.start(scenario, HostPlan(), len(hosts) + 1))
            until(lambda: hosts[-1].exit_code is not None, "an older revision does not end")
            assert hosts[-1].exit_code == 3, "an older revision is not fenced"
        return dict(traffic.committed)

    def _hit(self, scenario: Scenario, host: Host, *, last: bool, sleepers: list[int]) -> None:
        """Waits until the host has been hit wherever it should, or else has something to take over."""
        for mark, blow in host.marks:
            until(lambda mark=mark: mark.exists() and mark.read_text(), f"it never came to {blow}", host)  # type: ignore[misc]
            if blow.how == "stop":
                sleepers.append(int(mark.read_text()))
        if not host.marks and not last:
            client = self._server.client()
            until(lambda: _any_commit(client, prefix_of(scenario.number)), "nothing is committed", host)
            client.close()

    def program(self, scenario: Scenario, plan: HostPlan, number: int) -> tuple[Program, list[tuple[Path, Blow]]]:
        """The `number`th host of a run, and the files that tell that it was hit."""
        folder = self._folder / f"{scenario.number:04d}" / str(number)
        folder.mkdir(parents=True)
        blows = [*([plan.driver] if plan.driver else []), *plan.workers]
        marks = [(folder / f"mark-{each}", blow) for each, blow in enumerate(blows)]
        strikes = [Strike(blow.place, blow.how, str(mark), blow.nth) for mark, blow in marks]
        topic, server = self.topic(scenario.number), self._server
        group, _ = group_of(scenario.kind, scenario.number, topic, plan.revision, big=scenario.big)
        program = Program(
            folder=str(folder),
            name=f"{self._unique}-{scenario.number}",
            group=group,
            kafka=Kafka(bootstrap=self.bootstrap),
            store=StoreSettings(
                endpoint=server.endpoint,
                bucket=BUCKET,
                access_key=server.access_key,
                secret_key=SecretStr(server.secret_key),
            ),
            at_once=scenario.at_once,
            driver=strikes[0] if plan.driver else None,
            workers={} if plan.driver else dict(enumerate(strikes)),
        )
        return program, marks

    def start(self, scenario: Scenario, plan: HostPlan, number: int) -> Host:
        """That host, in a process of its own."""
        program, marks = self.program(scenario, plan, number)
        process: Any = _FORKS.Process(target=run, args=(program,), daemon=True)
        with _ASKING:
            process.start()
        return Host(process, Path(program.folder), plan, marks)


def carry_on(conductor: Conductor, scenario: Scenario, plan: HostPlan, number: int, traffic: Traffic) -> None:
    """A host beside one that hangs: it goes on while there is traffic, ends that, and stores what is left."""
    host = conductor.start(scenario, plan, number)
    time.sleep(_TAKEN_OVER_S)
    traffic.end()
    end([host], {0})


def _any_commit(client: Any, prefix: str) -> bool:
    found = client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/_chain/").get("Contents", ())
    return any(each["Key"].endswith(".commit") for each in found)


def until(holds: Callable[[], object], otherwise: str, host: Host | None = None) -> None:
    """Waits, and fails with `otherwise` after a while, or when the host has ended that nothing was to end."""
    until_s = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s, otherwise
        ended = host is not None and host.exit_code is not None and not host.plan.driver
        assert not ended, f"a host has ended, {otherwise}"
        time.sleep(0.02)


def end(hosts: Iterable[Host], fine: set[int]) -> None:
    """Asks hosts to end, and fails where one stands still before, or does not end with one of these codes."""
    for host in hosts:
        (host.folder / "stop").touch()
    for host in hosts:
        stored, until_s = "", 0.0
        while host.exit_code is None:
            # Cuts of one folder are small, and a slow machine takes minutes for what is left.
            before, stored = stored, host.stored
            if stored != before or not until_s:
                until_s = time.monotonic() + _PATIENCE_S
            assert time.monotonic() < until_s, "a host does not end"
            time.sleep(0.02)
        assert host.exit_code in fine, f"a host ends with {host.exit_code}"


def wake(pids: list[int]) -> None:
    """Lets processes that are stopped go on, each once."""
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    pids.clear()


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _put_down(pids: Iterable[int], since_s: float) -> None:
    """Ends what is left of a run; a number that somebody else has by now is left alone."""
    for pid in pids:
        try:
            process = psutil.Process(pid)
            if process.create_time() >= since_s and process.status() != psutil.STATUS_ZOMBIE:
                process.kill()
        except psutil.NoSuchProcess:
            continue


def _said(folder: Path) -> str:
    found = [(folder / name).read_text()[-1500:] for name in ("error", "stderr") if (folder / name).exists()]
    return " ".join(found)
