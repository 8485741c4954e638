"""`lyrebird lake audit`: prove that the lake has every record once, or name what is not as it should be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.audit.chain.run_params import ChainAuditRun
from include.cli.lake.options import json_option
from include.clock import Clock, SystemClock
from include.errors import LyrebirdError, SettingsError

if TYPE_CHECKING:
    from include.audit.chain.listing import ProgressListener

__all__ = ["command"]

CANNOT_AUDIT = 2
_LINE_EVERY_S = 10.0


@click.command(name="audit")
@ChainAuditRun.options("topics")
@click.option("--all", "every", is_flag=True, help="All topics that the groups have.")
@ChainAuditRun.options("groups")
@click.option("--labels", is_flag=True, help="Ask each object who put it, too: one request each.")
@ChainAuditRun.options("deep")
@click.option(
    "--mend", is_flag=True, help="Mend summaries (deletes by section `expiry`), and commits that only they have."
)
@click.option("--report", type=click.Path(path_type=Path), help="Write the JSON there, too, and end with 0 if it is.")
@json_option
def command(
    topics: tuple[str, ...],
    every: bool,
    groups: tuple[str, ...],
    labels: bool,
    deep: bool,
    mend: bool,
    report: Path | None,
    as_json: bool,
) -> None:
    """Walk the chains of TOPIC in each group: every offset is in exactly one committed object, and none is changed.

    Names missing, changed and extra objects, holes, offsets found twice, and counts in which groups differ, each with
    the next command. Runs beside everything; writes summaries of commits where they are missing. Exit code: 0 clean,
    1 findings, 2 it cannot be said.
    """
    from include.audit.chain.audit import Options
    from include.audit.chain.platform import audit_on_servers
    from include.audit.chain.report import together
    from include.metrics.exporter import write_atomically
    from include.settings.deployment import Deployment

    try:
        if bool(topics) == every:
            raise SettingsError("no topic is named, or all and some", fix="Name topics, or say --all.")
        options = Options("bytes" if deep else "labels" if labels else "names")
        with _watched(quiet=as_json) as progress:
            asked = ChainAuditRun(topics=topics, groups=groups)
            reports = list(audit_on_servers(Deployment.load(), asked, SystemClock(), options, progress, mend=mend))
    except LyrebirdError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(CANNOT_AUDIT)
    told = orjson.dumps(together(reports)).decode()
    clean = all(each.clean for each in reports)
    if as_json:
        click.echo(told)
    else:
        click.echo("\n".join(line for each in reports for line in each.lines()) or "no group has any topic")
    if report is not None:
        write_atomically(report, told)
    sys.exit(0 if clean or report is not None else 1)


@contextmanager
def _watched(*, quiet: bool) -> Iterator[ProgressListener]:
    """A bar on stderr where a person sees it, else a line now and then."""
    from include.audit.chain.listing import Silent

    if quiet:
        yield Silent()
    elif not sys.stderr.isatty():
        yield _Lines(SystemClock())
    else:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Bars(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bars:
            yield _Bar(bars)


class _Bar:
    """One bar for the part that is under way."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._task = bars.add_task("begins", total=None)

    def begin(self, what: str, total: int | None = None) -> None:
        self._bars.reset(self._task, description=what, total=total)

    def advance(self, steps: int) -> None:
        self._bars.advance(self._task, steps)


class _Lines:
    """A plain line every ten seconds, as in a task's log."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_s = clock.monotonic_s() + _LINE_EVERY_S
        self._what, self._done, self._total = "", 0, ""

    def begin(self, what: str, total: int | None = None) -> None:
        self._what, self._done, self._total = what, 0, "" if total is None else f" of {total:,}"

    def advance(self, steps: int) -> None:
        self._done += steps
        if self._clock.monotonic_s() >= self._next_s:
            self._next_s = self._clock.monotonic_s() + _LINE_EVERY_S
            click.echo(f"{self._what}: {self._done:,}{self._total}", err=True)
