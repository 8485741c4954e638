"""`lyrebird join replay`: a join over a file of changes."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from include.join.replay import JoinReplay, ReplayedChange

__all__ = ["command"]


@click.command(name="replay")
@click.option("--config", required=True, type=click.Path(path_type=Path, dir_okay=False), help="File of the join.")
@click.option(
    "--input",
    "file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Changes, one JSON object a line.",
)
@click.option(
    "--engine",
    type=click.Choice(["python", "spark"]),
    default="python",
    show_default=True,
    help="spark: through the real application, on servers that are started for it and stopped.",
)
@click.option("--final", is_flag=True, help="Print the table that the outputs make, by key, instead of the outputs.")
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Changes of one batch.")
@click.option("--shuffle", is_flag=True, help="Hand the outputs out in another order; --final is the same.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which order `--shuffle` takes.")
@json_option()
def command(
    config: Path, file: Path, engine: str, final: bool, batch: int, shuffle: bool, seed: int, as_json: bool
) -> None:
    """Print what a join writes for the changes of a file: no server, no registry, no Spark.

    A line of the file is `{"input": 0, "op": "c", "key": {"id": 1}, "value": {"id": 1, "name": "x"}, "version": 7}`;
    `input` counts the inputs of the join from 0, `op` is c, u or d (with `"value": null`). A line of what is printed
    is `{"key": {…}, "value": {…}, "version": 15}`.

    With `--engine spark` the same goes through Kafka, registry, object store and the Spark application, which are
    started first; each batch takes about a second.
    """
    from include.join.algorithm.batch import JoinOutput
    from include.join.config.definition import read_join
    from include.join.replay import final_table, read_changes, replay, shuffled

    _, join = read_join(config)
    changes = read_changes(file, len(join.join))
    # No batch of the application reads more.
    batch = min(batch, join.records_per_batch)
    if engine == "spark":
        done = _on_spark(config, file, changes, batch, quiet=as_json)
    else:
        done = replay(config, changes, batch)
    outputs = shuffled(done.outputs, seed) if shuffle else done.outputs
    if final:
        outputs = final_table(outputs)

    def line(output: JoinOutput) -> bytes:
        value = b"null" if output.value is None else output.value
        return b'{"key":%s,"value":%s,"version":%d}' % (output.key, value, output.version)

    if as_json:
        listed = b",".join(map(line, outputs))
        click.echo(b'{"outputs":[%s],"held":%d,"stale":%d}' % (listed, done.held, done.stale))
        return
    for output in outputs:
        click.echo(line(output))
    if done.held or done.stale:
        told = f"{done.held:,} changes held, as they would change too many outputs; {done.stale:,} older than their row"
        click.echo(told, err=True)


def _on_spark(
    config: Path, file: Path, changes: Mapping[int, ReplayedChange], batch: int, *, quiet: bool
) -> JoinReplay:
    from include.clock import SystemClock
    from include.local.join_replay import replay_on_spark

    def say(line: str) -> None:
        if not quiet:
            click.echo(line, err=True)

    # As Ctrl-C does, so that nothing is left running.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with progress_bar("changes", unit="changes", quiet=quiet) as bar:
            return replay_on_spark(config, file, changes, batch, SystemClock(), say=say, tell=bar.reach)
    finally:
        signal.signal(signal.SIGTERM, before)
