"""`lyrebird search dark-launch`: the database's lists beside the index's, compared under live traffic."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.cli.progress_bar import ProgressBar, progress_bar
from include.cli.search.options import in_option, target_named
from include.errors import BackPressure, LyrebirdError, SettingsError
from include.pace import TokenBucket
from include.settings.environment import state_folder

if TYPE_CHECKING:
    from include.clock import Clock
    from include.metrics.exporter import Metrics
    from include.search.dark_launch.launch import DarkLaunch, Question
    from include.search.dark_launch.report import DarkReport

__all__ = ["command"]

_CANNOT_SAY = 2
_LEAST = 100
# Comparisons at a time; those that wait for the index take none.
_THREADS = 8


@click.command(name="dark-launch")
@click.option("--samples", type=click.IntRange(1), default=200, show_default=True, help="Lists to compare.")
@click.option("--per-s", type=click.FloatRange(0.1, 1000), default=20.0, show_default=True, help="Lists a second.")
@click.option("--size", type=click.IntRange(1, 1000), default=20, show_default=True, help="Documents of a list.")
@click.option("--bound", type=click.FloatRange(0, 1), default=0.001, show_default=True, help="Share that may differ.")
@click.option("--deadline", "deadline_s", type=click.FloatRange(1), default=30.0, show_default=True, help="Seconds.")
@click.option("--seed", type=int, default=1, show_default=True, help="Draws users.")
@click.option("--ignore", "ignored", multiple=True, metavar="FIELD", help="Leave a field out, with dots.  [repeatable]")
@click.option("--metrics-port", type=click.IntRange(1, 65535), help="Serve Prometheus counters on loopback meanwhile.")
@click.option("--html", "page", type=click.Path(path_type=Path), help="Write the report as a page to this file.")
@click.option(
    "--from",
    "reports",
    type=click.Path(exists=True, path_type=Path, dir_okay=False),
    multiple=True,
    help="Ask nobody: add up reports that applications have written as JSON.",
)
@in_option
@json_option()
def command(
    samples: int,
    per_s: float,
    size: int,
    bound: float,
    deadline_s: float,
    seed: int,
    ignored: tuple[str, ...],
    metrics_port: int | None,
    page: Path | None,
    reports: tuple[Path, ...],
    name: str | None,
    as_json: bool,
) -> None:
    """Ask database and index for the same users' lists, compare them, advise whether to switch.

    Differences that are gone once the index has the database's position are lag. Exit code: 0 switch, 1 do not switch,
    2 it cannot be said: too little was compared, or a server does not answer.
    """
    try:
        if reports:
            target, report, least = target_named(name)[1].name, _added(reports), _LEAST
        else:
            asked = _Asked(samples, per_s, size, deadline_s, seed, frozenset(ignored), metrics_port)
            with progress_bar("asked", samples, unit="lists", quiet=as_json) as bar:
                target, report = _compared(asked, name, bar)
            least = min(_LEAST, samples)
        if page is not None:
            _write_page(page, target, report, bound, least)
    except LyrebirdError as error:
        tell_error(error)
        sys.exit(_CANNOT_SAY)
    advice = report.advice(bound, least)
    if as_json:
        said = {"switch": advice.switch, "reason": advice.reason}
        click.echo(orjson.dumps({**report.to_json(), "advice": said}).decode())
    else:
        click.echo("\n".join(report.lines(bound, least)))
    if not advice.switch:
        sys.exit(1 if advice.sure else _CANNOT_SAY)


@dataclass(frozen=True)
class _Asked:
    samples: int
    per_s: float
    size: int
    deadline_s: float
    seed: int
    ignored: frozenset[str]
    metrics_port: int | None


def _compared(asked: _Asked, name: str | None, bar: ProgressBar) -> tuple[str, DarkReport]:
    """Name of the search, and what was found."""
    from include.clock import SystemClock
    from include.metrics.exporter import Metrics
    from include.search.connect import connect, database_of_search
    from include.search.dark_launch.launch import DarkLaunch, Limits
    from include.search.dark_launch.stores import database_and_index, drawn_questions, rules_of

    (deployment, target), clock = target_named(name), SystemClock()
    fresh = target.search.fresh.model_copy(update={"recent": 1000, "reads_per_s": 4 * asked.per_s, "connections": 4})
    database = database_of_search(deployment, target.reading(fresh), clock)
    if database is None:
        raise SettingsError(
            "the search has no database to compare with", search=target.name, fix="Add `documents:` to its entry."
        )
    index = connect(deployment, target, clock).index
    limits = Limits(sample=1.0, queued=max(100, int(asked.per_s * asked.deadline_s)), deadline_s=asked.deadline_s)
    metrics = Metrics(f"dark-launch-{target.name}")
    if asked.metrics_port is not None:
        _serve(metrics, asked.metrics_port)
    dark = DarkLaunch(database_and_index(index, database), rules_of(index, asked.ignored), clock, limits, metrics)
    try:
        questions = drawn_questions(database, asked.size, asked.samples, random.Random(asked.seed))  # noqa: S311
        report = _run(dark, questions, asked.per_s, clock, bar)
    finally:
        database.close()
    return target.name, report


def _serve(metrics: Metrics, port: int) -> None:
    try:
        metrics.serve(state_folder(), port)
    except OSError as error:
        raise SettingsError(
            "counters cannot be served", port=port, cause=str(error), fix="Give another port."
        ) from error


def _write_page(page: Path, search: str, report: DarkReport, bound: float, least: int) -> None:
    from include.search.dark_launch.page import dark_page

    try:
        page.write_text(dark_page(search, report, bound, least), encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            "the page cannot be written", file=str(page), cause=str(error), fix="Give a place that can."
        ) from error
    click.echo(f"page: {page}", err=True)


def _run(dark: DarkLaunch, questions: Iterable[Question], per_s: float, clock: Clock, bar: ProgressBar) -> DarkReport:
    """Ask at an even pace, deciding samples beside it."""
    dark.start(_THREADS)
    # However long an answer takes, questions keep their number a second.
    pace = TokenBucket(per_s, clock, burst_s=math.inf)
    refused = 0
    try:
        for number, question in enumerate(questions, 1):
            pace.pay(1)
            try:
                dark.ask(question)
            except BackPressure:
                refused += 1
            bar.reach(number, what=f"{dark.report.samples:,} decided, asked")
    finally:
        report = dark.close()
    if refused:
        click.echo(f"{refused:,} lists were not asked for, as the database's cap was reached", err=True)
    return report


def _added(files: tuple[Path, ...]) -> DarkReport:
    from include.search.dark_launch.report import DarkReport

    reports: list[DarkReport] = []
    for file in files:
        try:
            reports.append(DarkReport.from_json(orjson.loads(file.read_bytes())))
        except (ValueError, SettingsError) as error:
            raise SettingsError(
                "not a report of a dark launch", file=str(file), reason=str(error), fix="Give files of --json."
            ) from error
    for each in reports[1:]:
        reports[0].add(each)
    return reports[0]
