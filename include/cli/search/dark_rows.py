"""`lyrebird search dark-rows`: documents beside the rows that a join made of the same tables."""

from __future__ import annotations

import sys

import click
import orjson

from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.errors import LyrebirdError, SettingsError
from include.settings.completion import names_of

__all__ = ["command"]

_DIFFERS = 1
_CANNOT_SAY = 2


@click.command(name="dark-rows")
@click.argument("name", required=False, shell_complete=names_of("dark_rows"))
@click.option("--deadline", "deadline_s", type=click.FloatRange(1), default=60.0, show_default=True, help="Seconds.")
@json_option()
def command(name: str | None, deadline_s: float, as_json: bool) -> None:
    """Compare each document's items with its rows, by the entry NAME of the section `dark_rows` (or the only one).

    Differences that are gone once both indexes have the database's position are lag. Exit code: 0 the same, 1 some
    differ, 2 it cannot be said: nothing was compared, an index is too far behind, or a server does not answer.
    """
    from include.clock import SystemClock
    from include.search.dark_rows.connect import dark_rows
    from include.search.dark_rows.definition import declared_dark_rows
    from include.settings.deployment import Deployment

    try:
        deployment = Deployment.load()
        entries = declared_dark_rows(deployment)
        entry = entries.get(name or "") or (next(iter(entries.values())) if len(entries) == 1 and not name else None)
        if entry is None:
            raise SettingsError(
                "no such entry of the section `dark_rows`" if name or not entries else "there are several entries",
                got=name,
                allowed=sorted(entries),
                fix="Name one of these, or declare one.",
            )
        report = dark_rows(deployment, entry, SystemClock(), deadline_s)
    except LyrebirdError as error:
        tell_error(error)
        sys.exit(_CANNOT_SAY)
    if as_json:
        click.echo(orjson.dumps(report.to_json()).decode())
    else:
        click.echo("\n".join(report.lines(entry.rules.of, entry.rules.item)))
    if not report.good:
        sys.exit(_DIFFERS if report.differs else _CANNOT_SAY)
