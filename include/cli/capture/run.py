"""`lyrebird capture run`: follow a source's binlog, or read its tables once."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import uuid
from types import FrameType
from typing import TYPE_CHECKING

import click
import orjson

from include.cli.capture.options import source_option, tables_option
from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.clock import SystemClock
from include.errors import Fenced, Restart, SettingsError, Terminal

if TYPE_CHECKING:
    from include.record.position import BinlogPosition
    from include.source.database.purge import PurgeHorizon
    from include.source.definition import SourceDefinition

__all__ = ["run_capture"]

_FENCED_EXIT = 3
_ALLOCATIONS = 50_000


@click.command(name="run")
@source_option
@click.option("--snapshot", is_flag=True, help="Read the tables once and end, instead of following the binlog.")
@click.option("--anew", is_flag=True, help="With --snapshot: read all again from now on, as after a purged binlog.")
@tables_option
@json_option()
def run_capture(name: str, snapshot: bool, anew: bool, tables: str, as_json: bool) -> None:
    """Follow the binlog of a source until stopped; takes over from a capture that runs already.

    Needs a finished snapshot: run it once with --snapshot first. Exit code 3: another capture has taken over. What no
    restart would mend is left in gave-up.json of the run folder.
    """
    from include.metrics.exporter import Metrics
    from include.metrics.progress import RunFolder, supervised
    from include.settings.deployment import Deployment
    from include.settings.environment import state_folder
    from include.source.database.binlog_files import BinlogFiles
    from include.source.database.purge_watch import PurgeWatch
    from include.source.definition import load_source
    from include.source.incidents import CaptureIncidents
    from include.source.log.kafka_log import kafka_log
    from include.source.reporter import Reporter
    from include.source.run import Capture, RunMode

    if (anew or tables) and not snapshot:
        raise SettingsError("--anew and --tables need --snapshot", fix="Add --snapshot, or leave them out.")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    clock, application = SystemClock(), f"capture-{name}"
    try:
        deployment = Deployment.load()
        source = load_source(deployment, name)
    except Terminal as error:
        if supervised():
            folder = RunFolder.from_environment(application, state_folder())
            folder.give_up(CaptureIncidents(name, folder, clock).on_end(error).to_json())
        raise
    signals = _Signals()
    folder = RunFolder.from_environment(application, state_folder())
    files: dict[str, BinlogFiles] = {}

    def look(at: SourceDefinition, position: BinlogPosition) -> PurgeHorizon:
        return files.setdefault(at.place, BinlogFiles(at, clock)).look(position).horizon

    purge = PurgeWatch(look).start()
    metrics = Metrics(application).serve(state_folder())
    reporter = Reporter(folder, metrics, clock, lambda: signals.seen, CaptureIncidents(name, folder, clock), purge)
    capture = Capture(name, source, kafka_log(deployment, name, clock), clock, reporter)
    mode: RunMode = "anew" if anew else "snapshot" if snapshot else "stream"
    # Rows are many, and in no cycles: to look for some among them so often took a tenth of all time.
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, 10, 50)
    try:
        ended = capture.run(mode, _list(tables), f"by-hand-{uuid.uuid4()}")
    except Fenced as error:
        tell_error(error)
        sys.exit(_FENCED_EXIT)
    if snapshot and ended == "stopped":
        raise Restart("stopped before the end of the snapshot", source=name, fix="Run it again: it goes on.")
    said = "the snapshot was done before; nothing to do" if ended == "already done" else ended
    value = {"source": name, "mode": mode, "ended": ended}
    click.echo(orjson.dumps(value).decode() if as_json else f"capture of {name}: {said}")


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


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
