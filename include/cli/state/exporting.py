"""`lyrebird state export`: all rows of a join's state in files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
import orjson

from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar
from include.cli.state.options import state_of_join
from include.settings.completion import names_of

__all__ = ["command"]


@click.command(name="export")
@click.argument("name", shell_complete=names_of("joins"))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@json_option()
def command(name: str, folder: Path, as_json: bool) -> None:
    """Write the state of join NAME, as it is committed now, to FOLDER. Changes nothing; the join may run.

    For another number of buckets, another store, or a release that keeps its state in another form: `state import`
    puts it back.
    """
    from include.join.rehoming import committed_of
    from include.state.transfer import exported

    with state_of_join(name) as state:
        pointers = committed_of(state.join, state.reader).pointers
        with progress_bar(name, len(pointers), unit="buckets", quiet=as_json) as bar:
            done = exported(
                state.place,
                state.store,
                {(stage, bucket): pointer for (stage, bucket), pointer in pointers.items()},
                folder,
                of=state.join.topic,
                on_bucket=lambda _each: bar.advance(),
            )
    if as_json:
        click.echo(orjson.dumps({"folder": str(folder), **asdict(done)}).decode())
        return
    click.echo(f"{done.rows:,} rows, {done.bytes / 1e6:,.1f} MB, digest {done.digest}")
