"""`lyrebird index rebuild`: the next generation of an index, filled from its topics and compared."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.cli.json_option import json_option
from include.cli.progress_bar import ProgressBar, progress_bar
from include.clock import SystemClock
from include.index.run_params import RebuildRun

if TYPE_CHECKING:
    from include.index.generations.rebuild.pace import RebuildProgress
    from include.index.generations.rebuild.run import ProgressReporter

__all__ = ["command"]

_TELL_EVERY_S = 1.0


@click.command(name="rebuild")
@RebuildRun.options()
@click.option("--new", is_flag=True, help="Another generation, even if one is unfinished.")
@click.option(
    "--tasks", type=click.IntRange(1, 64), default=os.cpu_count() or 1, show_default=True, help="Ranges read at a time."
)
@click.option(
    "--within",
    "within_s",
    type=click.FloatRange(0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the application may take to follow.",
)
@json_option("Print JSON lines, nothing else; the last is the result.")
def command(index: str, dry_run: bool, new: bool, tasks: int, within_s: float, as_json: bool) -> None:
    """Make the next generation of index NAME as it is declared now, fill it from its topics, and compare it.

    NAME is the alias that readers ask, or a topic that fills one index.

    Readers keep the one they have until `lyrebird index promote`. Killed, it goes on when it is called again. Its
    documents are the same as those of the generation that serves; when none serves, as of the topics. Exit code 1: they
    are not, or it cannot be done; 75: a server is away, or the application that feeds it does not run: call it again.
    """
    from include.audit.search.generation_proof import prove
    from include.index.deployed import DeployedIndex
    from include.index.generations.active import serving_or_none
    from include.index.generations.rebuild.deployed import PoolOf, carry_out, plan_of
    from include.index.generations.rebuild.fill import lost_range
    from include.index.worker import work_off_range
    from include.log.running.processes import Processes, ProcessPool
    from include.settings.deployment import Deployment

    with DeployedIndex.of(Deployment.load(), index) as on:
        name = on.alias
        plan = plan_of(on, new=new)
        _say(plan.lines(), {"plan": plan.to_json()}, as_json)
        if dry_run:
            return
        processes = Processes(tasks)
        pool_of: PoolOf = lambda work: ProcessPool(processes, partial(work_off_range, work), lost_range)  # noqa: E731
        try:
            with progress_bar(name, unit="offsets", quiet=as_json) as bar:
                done = carry_out(on, plan, pool_of, _json_teller() if as_json else _teller(bar), within_s=within_s)
        finally:
            processes.close()
        proof = prove(on, done.info, serving_or_none(on.index, name))
    following = f"next: lyrebird index promote {name} --generation {plan.name.generation}"
    told = [*done.lines(), *proof.lines(), *([] if proof.findings else [following])]
    _say(told, {"rebuilt": done.to_json(), "proof": proof.to_json()}, as_json)
    sys.exit(1 if proof.findings else 0)


def _say(lines: list[str], value: dict[str, Any], as_json: bool) -> None:
    click.echo(orjson.dumps(value).decode() if as_json else "\n".join(lines))


def _teller(bar: ProgressBar) -> ProgressReporter:
    from include.index.generations.rebuild.run import ProgressReporter

    return ProgressReporter(
        lambda found: bar.reach(found.done, found.total), lambda reason: click.echo(f"waits: {reason}", err=True)
    )


def _json_teller() -> ProgressReporter:
    from include.index.generations.rebuild.run import ProgressReporter

    clock = SystemClock()
    last_s: list[float] = []

    def reached(found: RebuildProgress) -> None:
        now_s = clock.monotonic_s()
        if last_s and now_s < last_s[-1] + _TELL_EVERY_S and found.done < found.total:
            return
        last_s[:] = [now_s]
        click.echo(orjson.dumps({"reached": found.to_json()}).decode())

    return ProgressReporter(reached, lambda reason: click.echo(orjson.dumps({"waits": reason}).decode()))
