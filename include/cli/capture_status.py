"""`lyrebird capture status`: how far a source's copy is, what it lacks, and how long its server keeps what it needs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.cli.capture_options import json_option, source_option
from include.clock import SystemClock
from include.errors import LyrebirdError

if TYPE_CHECKING:
    from include.log.resolved import Resolved
    from include.source.binlog_files import BinlogLook
    from include.source.definition import SourceDefinition

__all__ = ["show_status"]


@click.command(name="status")
@source_option
@json_option
def show_status(name: str, as_json: bool) -> None:
    """Say what the source's copy is complete to and what it lacks, and how long the server keeps its binlog.

    Rests on the log: neither capture nor the server need run. Rows and events passed over count from the start of the
    capture on this host.
    """
    from include.log.kafka import KafkaAdmin, KafkaReader
    from include.log.topics import source_resolved
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment
    from include.settings.environment import state_folder
    from include.source.checkpoint import newest
    from include.source.definition import load_source
    from include.source.status import lines_of, open_requests, status_of

    deployment = Deployment.load()
    source = load_source(deployment, name)
    kafka, clock, topic = deployment.one("kafka", Kafka), SystemClock(), source_resolved(name)
    reader = KafkaReader(kafka.bootstrap, kafka.options)
    try:
        there = topic in set(KafkaAdmin(kafka.bootstrap, kafka.options).names())
        last = newest(reader, topic) if there else None
        requests = open_requests(reader, name) if there else []
    finally:
        reader.close()
    progress, running = _progress(state_folder(), f"capture-{name}")
    server = _look(_read_from(source, progress.get("server")), last, clock)
    found = status_of(name, last, requests, progress, server, clock.now_us(), running=running)
    click.echo(orjson.dumps(found).decode() if as_json else "\n".join(lines_of(found)))


def _read_from(source: SourceDefinition, place: object) -> SourceDefinition:
    """The server that capture on this host read from last, else the source's own."""
    from include.source.failover import places

    return next((each for each in places(source) if each.place == place), source)


def _look(source: SourceDefinition, last: Resolved | None, clock: SystemClock) -> BinlogLook | str:
    from include.source.binlog_files import BinlogFiles

    if last is None:
        return "nothing was captured yet"
    try:
        return BinlogFiles(source, clock).look(last.position.binlog)
    except LyrebirdError as error:
        return str(error)


def _progress(state: Path, application: str) -> tuple[dict[str, Any], bool]:
    """The newest report of a capture on this host, under a guardian or by hand, and whether its process lives."""
    reports = [_read(state / "run" / name / "progress.json") for name in (application, f"by-hand-{application}")]
    pid = _read(state / "metrics" / f"{application}.json").get("pid")
    return max(reports, key=lambda report: report.get("at_us", 0)), isinstance(pid, int) and _lives(pid)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
