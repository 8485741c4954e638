"""`lyrebird eventtime verify`: a day of a job once more, beside what was live."""

from __future__ import annotations

import sys

import click
import orjson

__all__ = ["command"]

CANNOT_VERIFY = 2


@click.command(name="verify")
@click.argument("name")
@click.option("--day", help="The day, such as 2026-11-02, UTC; by itself yesterday.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def command(name: str, day: str | None, as_json: bool) -> None:
    """Replay a day of job NAME from its savepoint, over the same records and verdicts, and compare all outputs.

    Changes nothing of the live run, and may run beside it. What the replay wrote stays where it differs. Exit code:
    0 the same, 1 something differs, 2 it cannot be said.
    """
    from include.clock import SystemClock
    from include.errors import LyrebirdError
    from include.eventtime.committed import day_of
    from include.eventtime.rerun.stream import shown_by, verify
    from include.log.stream import session
    from include.settings.connections import Registry
    from include.settings.deployment import Deployment

    shown = sys.stderr.isatty() and not as_json
    day = day or day_of(SystemClock().now_us() - 86_400_000_000)

    def tell(begin: int, watermark: int, end: int) -> None:
        if shown and end > begin > 0:
            done = max(0, min(watermark, end) - begin) / (end - begin)
            click.echo(f"\r{done:6.1%} of {day}", err=True, nl=watermark >= end)

    try:
        deployment = Deployment.load()
        spark = session("eventtime_verify")
        try:
            report = verify(spark, deployment, name, day, tell)
        finally:
            spark.stop()
        said = report.to_json(shown_by(deployment.one("registry", Registry)))
    except LyrebirdError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(CANNOT_VERIFY)
    click.echo(orjson.dumps(said).decode() if as_json else "\n".join(report.lines(said["first"])))
    sys.exit(0 if report.clean else 1)
