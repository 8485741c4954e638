"""`lyrebird eventtime verify`: a day of a job once more, beside what was live."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import orjson

from include.cli.colours import painted
from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar
from include.settings.completion import names_of

if TYPE_CHECKING:
    from include.eventtime.restored import RestoredSource
    from include.settings.deployment import Deployment

__all__ = ["command"]

CANNOT_VERIFY = 2


@click.command(name="verify")
@click.argument("name", shell_complete=names_of("eventtime"))
@click.option("--day", help="The day, such as 2026-11-02, UTC; by itself yesterday.")
@click.option(
    "--restored",
    "moved",
    multiple=True,
    metavar="SOURCE=TOPIC",
    help="Read a source from the topic that `lyrebird lake restore SOURCE --to TOPIC` has made; again for another.",
)
@click.option(
    "--patience",
    default="",
    metavar="DURATION",
    help="Wait so much longer for what comes late than the live run did, such as 2h: what lateness has changed.",
)
@json_option()
def command(name: str, day: str | None, moved: tuple[str, ...], patience: str, as_json: bool) -> None:
    """Replay a day of job NAME from its savepoint, over the same records and verdicts, and compare all outputs.

    Changes nothing of the live run, and may run beside it. What the replay wrote stays where it differs. Exit code:
    0 the same, 1 something differs, 2 it cannot be said. With --patience differences are what was asked for: 0.
    """
    from include.clock import SystemClock
    from include.errors import LyrebirdError
    from include.eventtime.committed import day_of
    from include.eventtime.rerun.rerun_spark import shown_by, verify
    from include.log.running.batches_spark import session
    from include.settings.connections import Registry
    from include.settings.deployment import Deployment

    day = day or day_of(SystemClock().now_us() - 86_400_000_000)

    try:
        deployment = Deployment.load()
        waits_us = _duration(patience)
        restored = dict(_restored(deployment, each) for each in moved)
        with progress_bar(day, unit="seconds", quiet=as_json) as bar:

            def tell(begin: int, watermark: int, end: int) -> None:
                if end > begin > 0:
                    bar.reach(max(0, min(watermark, end) - begin) // 1_000_000, (end - begin) // 1_000_000)

            spark = session("eventtime_verify")
            try:
                report = verify(spark, deployment, name, day, tell, restored, waits_us)
            finally:
                spark.stop()
        said = report.to_json(shown_by(deployment.one("registry", Registry)))
    except LyrebirdError as error:
        tell_error(error)
        sys.exit(CANNOT_VERIFY)
    click.echo(orjson.dumps(said).decode() if as_json else painted("\n".join(report.lines(said["first"]))))
    sys.exit(0 if report.clean or waits_us else 1)


def _duration(text: str) -> int:
    from include.errors import SettingsError
    from include.eventtime.model.duration import duration_us

    try:
        return duration_us(text) if text else 0
    except ValueError as error:
        raise SettingsError(str(error), option="--patience") from error


def _restored(deployment: Deployment, text: str) -> tuple[str, RestoredSource]:
    from include.clock import SystemClock
    from include.errors import SettingsError
    from include.eventtime.restored import RestoredSource
    from include.lake.restore.deployed import DeployedRestore
    from include.lake.restore.request import RestoreRequest

    source, equals, target = text.partition("=")
    if not equals:
        raise SettingsError("a restored source is SOURCE=TOPIC", got=text, option="--restored")
    found = DeployedRestore.of(deployment, SystemClock()).spans(RestoreRequest(topic=source, target=target))
    return source, RestoredSource(target, found)
