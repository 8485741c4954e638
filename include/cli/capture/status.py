"""`lyrebird capture status`: how far a source's copy is, what it lacks, and how long its server keeps what it needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.cli.capture.options import source_option
from include.cli.colours import painted
from include.cli.json_option import json_option
from include.clock import SystemClock
from include.errors import LyrebirdError, Transient
from include.metrics.progress import GAVE_UP, PROGRESS, last_run_folder, read_file

if TYPE_CHECKING:
    from include.log.resolved import ResolvedRecord
    from include.record.position import BinlogPosition
    from include.settings.connections import Kafka
    from include.source.database.binlog_files import BinlogLook
    from include.source.definition import SourceDefinition

__all__ = ["show_status"]

# Long enough for a log that is well; who asks while it is not should hear so soon.
_PATIENCE_S = 5.0


@click.command(name="status")
@source_option
@json_option()
def show_status(name: str, as_json: bool) -> None:
    """Say what the source's copy is complete to and what it lacks, and how long the server keeps its binlog.

    Rests on the log: neither capture nor the server need run. Rows and events passed over count from the start of the
    capture on this host. While Kafka does not answer, says so, and what that capture reported last.
    """
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment
    from include.settings.environment import state_folder
    from include.source.definition import load_source
    from include.source.state.capture_state import CaptureState
    from include.source.status import lines_of, status_of

    deployment = Deployment.load()
    source = load_source(deployment, name)
    clock, unread = SystemClock(), ""
    last: ResolvedRecord | None = None
    requests: list[str] = []
    refused: list[dict[str, Any]] = []
    try:
        last, requests, refused = _log(deployment.one("kafka", Kafka), name)
    except Transient as error:
        unread = str(error)
    progress, gave_up, running = _progress(state_folder(), f"capture-{name}")
    position = _position(last, progress if unread else {})
    needed = position if last is None else CaptureState.from_json(last.state).needed(last.position)
    server = _look(_read_from(source, progress.get("server")), position, needed, clock)
    status = status_of(
        name,
        last,
        requests,
        progress,
        server,
        clock.now_us(),
        running=running,
        gave_up=gave_up,
        unread=unread,
        refused=refused,
    )
    click.echo(orjson.dumps(status).decode() if as_json else painted("\n".join(lines_of(status))))


def _read_from(source: SourceDefinition, place: object) -> SourceDefinition:
    """The server that capture on this host read from last, else the source's own."""
    from include.source.database.failover import places

    return next((each for each in places(source) if each.place == place), source)


def _log(kafka: Kafka, name: str) -> tuple[ResolvedRecord | None, list[str], list[dict[str, Any]]]:
    """The newest resolved record, the requests that are open, and those that were refused lately."""
    from include.log.kafka.log import KafkaAdmin, KafkaReader
    from include.log.topics import source_answers, source_requests, source_resolved
    from include.source.log.checkpoint import newest
    from include.source.status import open_requests, refused_requests

    topic = source_resolved(name)
    names = set(KafkaAdmin(kafka.bootstrap, kafka.options, timeout_s=_PATIENCE_S).names())
    if topic not in names:
        return None, [], []
    reader = KafkaReader(kafka.bootstrap, kafka.options, timeout_s=_PATIENCE_S)
    try:
        last = newest(reader, topic)
        # A capture that starts for the first time makes them one behind the other.
        if not {source_requests(name), source_answers(name)} <= names:
            return last, [], []
        return last, open_requests(reader, name), refused_requests(reader, name)
    finally:
        reader.close()


def _position(last: ResolvedRecord | None, told: dict[str, Any]) -> BinlogPosition | None:
    from include.record.position import BinlogPosition

    if last is not None:
        return last.position.binlog
    file, _, pos = str(told.get("position", "")).rpartition(":")
    return BinlogPosition(file, int(pos)) if file and pos.isdigit() else None


def _look(
    source: SourceDefinition, position: BinlogPosition | None, needed: BinlogPosition | None, clock: SystemClock
) -> BinlogLook | str:
    from include.source.database.binlog_files import BinlogFiles

    if position is None:
        return "nothing was captured yet"
    try:
        return BinlogFiles(source, clock).look(position, needed)
    except LyrebirdError as error:
        return str(error)


def _progress(state: Path, application: str) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """The newest report of a capture on this host, under a guardian or by hand, why it gave up, whether it lives."""
    folder = last_run_folder(application, state)
    pid = read_file(state / "metrics" / f"{application}.json").get("pid")
    alive = isinstance(pid, int) and _lives(pid)
    return read_file(folder / PROGRESS), {} if alive else read_file(folder / GAVE_UP), alive


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
