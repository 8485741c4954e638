"""Reads what runs on this machine: servers of the stack, and applications by their `/metrics`."""

from __future__ import annotations

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import psutil

from include.clock import Clock, iso
from include.incidents.supervision import is_crash
from include.local import process
from include.local.records import Records
from include.local.services import SERVICES
from include.metrics.progress import read_file
from include.outbox.folder import OutboxState, outbox

__all__ = ["ApplicationStatus", "ProcessStatus", "StackStatus", "read"]

_DAY_US = 86_400_000_000


@dataclass(frozen=True)
class ProcessStatus:
    """One server process. `state`: running, waiting (dead, started again soon), gave up, starting, down."""

    service: str
    process: str
    state: Literal["running", "waiting", "gave up", "starting", "down"]
    pid: int | None
    ports: tuple[int, ...]
    memory_mb: float
    uptime_s: float
    deaths: int
    note: str


@dataclass(frozen=True)
class ApplicationStatus:
    """One process with `/metrics`: its sums by metric name, or why they could not be read.

    Attributes:
        restarts: how often it was started again in the last 24 hours after an end that nobody had asked for.
        last_exit: its guardian's note of the newest end: `rc` (null: its guardian was killed with it; negative: a
            signal), `why` (null: by itself), `problem`, `ended_us`; None when it has not ended yet.
    """

    application: str
    pid: int
    url: str
    alive: bool
    numbers: dict[str, float] = field(default_factory=dict)
    error: str = ""
    restarts: int = 0
    last_exit: dict[str, Any] | None = None


@dataclass(frozen=True)
class StackStatus:
    """All of it; `supervisor` is the pid of the living supervisor."""

    state: str
    supervisor: int | None
    processes: tuple[ProcessStatus, ...]
    applications: tuple[ApplicationStatus, ...]
    mails: OutboxState

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def read(state: Path, clock: Clock) -> StackStatus:
    """The state of a stack as it is now. Changes nothing; an empty folder is a stack that is down."""
    records = Records(state)
    numbers: dict[str, int] = records.stack().get("ports", {})
    processes: list[ProcessStatus] = []
    for row in SERVICES:
        ports = tuple(numbers[p.name] for p in row.ports if p.name in numbers)
        shown = [_process(records, row.name, name, ports, clock) for name in row.processes]
        # One that nobody asked for is no server that is missing.
        processes.extend(each for each in shown if not (row.optional and each.state == "down"))
    supervisor = records.supervisor_process()
    return StackStatus(
        state=str(state),
        supervisor=supervisor.pid if supervisor and process.alive(supervisor) else None,
        processes=tuple(processes),
        applications=tuple(_with_exits(state, each, clock.now_us()) for each in _applications(state)),
        mails=outbox(state).state(),
    )


def _process(records: Records, service: str, name: str, ports: tuple[int, ...], clock: Clock) -> ProcessStatus:
    state = records.read(name)
    wanted = records.spec(name) is not None
    if state is None or state.running is None or not state.is_alive:
        word: Literal["waiting", "gave up", "starting", "down"] = "down"
        if wanted and state is not None and state.state == "gave up":
            word = "gave up"
        elif wanted:
            word = "waiting" if state is not None and state.deaths else "starting"
        deaths, note = (state.deaths, state.note) if state else (0, "")
        return ProcessStatus(service, name, word, None, ports, 0.0, 0.0, deaths, note)
    uptime_s = max(0.0, clock.now_us() / 1_000_000 - state.started)
    memory_mb = process.memory_mb(process.StartedProcess(state.pid, state.started))
    return ProcessStatus(service, name, "running", state.pid, ports, memory_mb, uptime_s, state.deaths, state.note)


def _applications(state: Path) -> tuple[ApplicationStatus, ...]:
    notes = []
    for path in sorted((state / "metrics").glob("*.json")):
        try:
            notes.append(json.loads(path.read_text()))
        except (OSError, ValueError):
            continue
    if not notes:
        return ()
    with ThreadPoolExecutor(max_workers=8) as pool:
        return tuple(pool.map(_application, notes))


def _with_exits(state: Path, application: ApplicationStatus, now_us: int) -> ApplicationStatus:
    folder = state / "run" / application.application
    try:
        exits = [each for each in read_file(folder / "exits.json").get("exits", []) if isinstance(each, dict)]
        now_ended = read_file(folder / "exit.json")
        next_us = read_file(folder / "down.json").get("next_us")
    except OSError:
        return application
    restarts = sum(is_crash(each) and each.get("ended_us", 0) > now_us - _DAY_US for each in exits)
    application = replace(application, restarts=restarts, last_exit=now_ended or (exits[-1] if exits else None))
    asked = application.last_exit is not None and application.last_exit.get("why") == "asked"
    if application.alive or asked or not isinstance(next_us, int) or next_us < now_us:
        return application
    return replace(application, error=f"it crashes again and again, and is tried again at {iso(next_us)[:19]}Z")


def _application(note: dict[str, Any]) -> ApplicationStatus:
    name, pid, url = str(note.get("application")), int(note.get("pid", 0)), str(note.get("url"))
    if not psutil.pid_exists(pid):
        return ApplicationStatus(name, pid, url, alive=False, error="its process has ended")
    if not url.startswith("http://"):
        return ApplicationStatus(name, pid, url, alive=True, error="its note names no http:// address")
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=2) as response:
            text = response.read().decode()
    except (OSError, ValueError) as error:
        return ApplicationStatus(name, pid, url, alive=True, error=f"no answer: {error}")
    return ApplicationStatus(name, pid, url, alive=True, numbers=_sums(text))


def _sums(text: str) -> dict[str, float]:
    """Counters added up over their labels; of gauges the greatest."""
    from prometheus_client.parser import text_string_to_metric_families

    numbers: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        if not family.name.startswith("lyrebird_"):
            continue
        for sample in family.samples:
            if sample.name.endswith("_created"):
                continue
            before = numbers.get(sample.name)
            if before is None:
                numbers[sample.name] = sample.value
            elif family.type == "counter":
                numbers[sample.name] = before + sample.value
            else:
                numbers[sample.name] = max(before, sample.value)
    return numbers
