"""`lyrebird capture`: copy a source into Kafka, ask for a snapshot, see how far it is, check its server."""

from __future__ import annotations

import logging
import signal
import sys
import uuid
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.cli.capture_options import json_option, source_option, tables_option
from include.cli.capture_policy import show_policy
from include.clock import SystemClock
from include.errors import Fenced, SettingsError, Terminal

if TYPE_CHECKING:
    from include.log.ports import LogReader
    from include.source.definition import SourceDefinition

__all__ = ["command"]

_FENCED_EXIT = 3
_ANSWER_EVERY_S = 0.5


@click.group(name="capture", help="Copy a MySQL source into Kafka: run, snapshot, position.")
def command() -> None:
    """Group of capture's commands."""


command.add_command(show_policy)


@command.command(name="run")
@source_option
@click.option("--snapshot", is_flag=True, help="Read the tables once and end, instead of following the binlog.")
@click.option("--anew", is_flag=True, help="With --snapshot: read all again from now on, as after a purged binlog.")
@tables_option
@json_option
def run_capture(name: str, snapshot: bool, anew: bool, tables: str, as_json: bool) -> None:
    """Follow the binlog of a source until stopped; takes over from a capture that runs already.

    Needs a finished snapshot: run it once with --snapshot first. Exit code 3: another capture has taken over.
    """
    from include.metrics.exporter import Metrics
    from include.metrics.progress import RunFolder
    from include.settings.environment import state_folder
    from include.source.binlog_files import BinlogFiles
    from include.source.incident import Incidents
    from include.source.purge_watch import PurgeWatch
    from include.source.reporter import Reporter
    from include.source.run import Capture, Mode, kafka_ports

    if (anew or tables) and not snapshot:
        raise SettingsError("--anew and --tables need --snapshot", fix="Add --snapshot, or leave them out.")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    deployment, source = _source(name)
    clock, application = SystemClock(), f"capture-{name}"
    signals = _Signals()
    folder, files = RunFolder.from_environment(application, state_folder()), BinlogFiles(source, clock)
    purge = PurgeWatch(lambda position: files.look(position).horizon).start()
    metrics = Metrics(application).serve(state_folder())
    reporter = Reporter(folder, metrics, clock, lambda: signals.seen, Incidents(name, folder, clock), purge)
    capture = Capture(name, source, kafka_ports(deployment, name, clock), clock, reporter)
    mode: Mode = "anew" if anew else "snapshot" if snapshot else "stream"
    try:
        ended = capture.run(mode, _list(tables), f"by-hand-{uuid.uuid4()}")
    except Fenced as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_FENCED_EXIT)
    if snapshot and ended == "stopped":
        raise Terminal("stopped before the end of the snapshot", source=name, fix="Run it again: it begins anew.")
    said = "the snapshot was done before; nothing to do" if ended == "already done" else ended
    _print({"source": name, "mode": mode, "ended": ended}, as_json, f"capture of {name}: {said}")


@command.command(name="request-snapshot")
@source_option
@tables_option
@click.option("--id", "id_", default="", help="The request's id: the same id is carried out once. Default: a new one.")
@click.option("--wait", is_flag=True, help="Return when it is done.")
@click.option("--timeout", type=click.FloatRange(min=1), default=3600.0, show_default=True, help="Longest wait, s.")
@json_option
def request_snapshot(name: str, tables: str, id_: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Ask the running capture to read tables again, while it goes on following the binlog."""
    from include.log.kafka import KafkaAdmin, KafkaReader
    from include.log.kafka_writer import KafkaWriter
    from include.log.requests import Request
    from include.log.topics import source_requests
    from include.settings.connections import Kafka
    from include.source.desk import answers_by_id
    from include.source.ports import ensure_topics

    deployment, _ = _source(name)
    kafka, clock, id_ = deployment.one("kafka", Kafka), SystemClock(), id_ or str(uuid.uuid4())
    reader = KafkaReader(kafka.bootstrap, kafka.options)
    ensure_topics(name, KafkaAdmin(kafka.bootstrap, kafka.options))
    answer = answers_by_id(reader, name).get(id_)
    if answer is None:
        request = Request(id_, "snapshot", "lyrebird capture request-snapshot", clock.now_us(), _list(tables))
        writer = KafkaWriter(kafka.bootstrap, f"lyrebird.ask.{name}.{id_}", kafka.options)
        writer.begin()
        writer.append(source_requests(name), request.key(), request.value())
        writer.commit()
        writer.close()
    until_s = clock.monotonic_s() + timeout
    while wait and (answer is None or answer.state not in ("done", "refused")):
        if clock.monotonic_s() > until_s:
            raise Terminal(
                "the request is not done yet",
                id=id_,
                state=answer.state if answer else "unanswered",
                fix=f"Does capture run? See `lyrebird capture status --source {name}`; ask again with the same --id.",
            )
        clock.sleep(_ANSWER_EVERY_S)
        answer = answers_by_id(reader, name).get(id_)
    reader.close()
    state = answer.state if answer else "requested"
    if state == "refused":
        raise Terminal("capture refused the request", id=id_, reason=answer.note if answer else "")
    rows = answer.done if answer else 0
    _print({"source": name, "id": id_, "state": state, "rows": rows}, as_json, f"request {id_}: {state}, {rows:,} rows")


@command.command(name="status")
@source_option
@json_option
def show_status(name: str, as_json: bool) -> None:
    """Say what the source's copy is complete to, from the log alone: capture need not run."""
    from include.log.kafka import KafkaAdmin, KafkaReader
    from include.settings.connections import Kafka

    deployment, _ = _source(name)
    kafka = deployment.one("kafka", Kafka)
    reader = KafkaReader(kafka.bootstrap, kafka.options)
    try:
        there = set(KafkaAdmin(kafka.bootstrap, kafka.options).names())
        found = _status(name, reader, there)
    finally:
        reader.close()
    lag = "-" if found["lag_s"] is None else f"{found['lag_s']:.1f} s"
    lines = [
        f"source     {name}",
        f"snapshot   {found['snapshot']}",
        f"position   {found['gtids'] or '-'} ({found['position'] or '-'})",
        f"lag        {lag}",
        f"version    {found['version']}",
        f"uncovered  {', '.join(found['uncovered']) or 'nothing'}",
        f"requests   {', '.join(found['requests']) or 'none'} open",
    ]
    _print(found, as_json, "\n".join(lines))


@command.command(name="check")
@source_option
@json_option
def check_source(name: str, as_json: bool) -> None:
    """Say what on the server stands in capture's way; exit code 1 when something does."""
    from include.source.preflight import preflight

    _, source = _source(name)
    found = preflight(source)
    findings = [{"level": each.level, "place": each.place, "problem": each.problem, "fix": each.fix} for each in found]
    refused = any(each.level == "refuse" for each in found)
    lines = [f"{each.level}: {each.place} {each.problem}. {each.fix}" for each in found]
    if not refused:
        lines.append(f"{source.place} can be captured")
    _print({"source": name, "server": source.place, "findings": findings}, as_json, "\n".join(lines))
    if refused:
        sys.exit(1)


class _Signals:
    """SIGTERM and Ctrl-C ask for a clean end; a second one ends at once."""

    def __init__(self) -> None:
        self.seen = False
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.seen:
            raise KeyboardInterrupt
        self.seen = True


def _status(name: str, reader: LogReader, there: set[str]) -> dict[str, Any]:
    from include.log.requests import Request
    from include.log.topics import source_requests, source_resolved
    from include.source.checkpoint import newest
    from include.source.desk import answers_by_id

    empty: dict[str, Any] = {
        "source": name,
        "snapshot": "missing",
        "position": None,
        "gtids": None,
        "lag_s": None,
        "version": 0,
        "uncovered": [],
        "requests": [],
    }
    last = newest(reader, source_resolved(name)) if source_resolved(name) in there else None
    if last is None:
        return empty
    topic = source_requests(name)
    closed = {id_ for id_, answer in answers_by_id(reader, name).items() if answer.state in ("done", "refused")}
    asked = [
        Request.parse(record.value).id
        for record in reader.read(topic, 0, reader.begin_offsets(topic)[0], reader.end_offsets(topic)[0])
        if record.value is not None
    ]
    return empty | {
        "snapshot": last.state["snapshot"],
        "position": str(last.position.binlog),
        "gtids": str(last.position.gtids),
        "commit_us": last.position.commit_us,
        "lag_s": max(0.0, (SystemClock().now_us() - last.position.commit_us) / 1e6),
        "version": last.version,
        "sequence": last.sequence,
        "uncovered": list(last.uncovered),
        "requests": [id_ for id_ in dict.fromkeys(asked) if id_ not in closed],
    }


def _source(name: str) -> tuple[Any, SourceDefinition]:
    from include.settings.deployment import Deployment
    from include.source.definition import load_source

    deployment = Deployment.load()
    return deployment, load_source(deployment, name)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _print(value: dict[str, Any], as_json: bool, text: str) -> None:
    click.echo(orjson.dumps(value).decode() if as_json else text)
