"""`lyrebird state import`: an exported state in the place of the committed one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import orjson

from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar
from include.cli.state.options import state_of_join
from include.settings.completion import names_of

if TYPE_CHECKING:
    from include.join.bucket import BucketKey

__all__ = ["command"]


@click.command(name="import")
@click.argument("name", shell_complete=names_of("joins"))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--buckets", type=click.IntRange(1, 4096), help="How many a stage has then.  [default: as many as now]")
@json_option()
def command(name: str, folder: Path, buckets: int | None, as_json: bool) -> None:
    """Put the state that `state export` wrote to FOLDER in the place of the one that join NAME has committed.

    Stop the join, export, import, write the number of buckets into its file, verify, and start it. A run that goes on
    meanwhile ends; an export of an earlier state than the committed one is refused. The join writes nothing from the
    imported state before `state verify` found it right.
    """
    from include.join.homes import home_of
    from include.join.rehoming import committed_of, replace_state
    from include.state.transfer import exported_versions, imported

    with state_of_join(name) as state:
        count = buckets or committed_of(state.join, state.reader).buckets
        with progress_bar(name, unit="rows", quiet=as_json) as bar:
            pointers, done = imported(
                state.place, state.store, folder, home_of(count), of=state.join.topic, on_rows=bar.reach
            )
        replace_state(
            state.join,
            cast("dict[BucketKey, bytes]", pointers),
            count,
            exported_versions(folder, state.join.topic),
            state.reader,
            state.writer,
        )
    if as_json:
        click.echo(orjson.dumps({"buckets": count, **asdict(done)}).decode())
        return
    click.echo(f"{done.rows:,} rows, {done.bytes / 1e6:,.1f} MB, digest {done.digest}, in {count} buckets a stage")
    if state.join.file.buckets != count:
        click.echo(f"next: write `buckets: {count}` into {state.join.entry.file}")
    click.echo(f"next: lyrebird state verify {name}; until it is clean the join waits")
