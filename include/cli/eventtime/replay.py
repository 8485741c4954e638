"""`lyrebird eventtime replay`: a job over a file of elements."""

from __future__ import annotations

import functools
import signal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from include.eventtime.algorithm.calls import Emitted, FailedCall
    from include.eventtime.model.process import Process
    from include.eventtime.replay import JobReplay, LateElement, ReplayLine

__all__ = ["command"]

_WHOLE: Final = 500_000


@click.command(name="replay")
@click.option("--job", required=True, help="An entry of `eventtime`, a job that comes along, or a dotted class name.")
@click.option(
    "--input",
    "file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Elements in the order of arrival, one JSON object a line.",
)
@click.option("--timeout", help="The job's setting `timeout`, such as 30m.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any setting of the job.")
@click.option("--disorder", help="How far out of order elements may come; 5s, or as the entry says.")
@click.option("--batch", type=click.IntRange(min=1), help="Most lines of one batch; by itself 1, on Spark all.")
@click.option("--interleave", is_flag=True, help="Let the partitions arrive at other speeds; the outputs are the same.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which order `--interleave` takes.")
@click.option("--ideal", is_flag=True, help="Nothing is late, whatever the order of arrival.")
@click.option("--open", "open_end", is_flag=True, help="The end of the file does not move the watermark.")
@click.option("--drain", "fire_all", is_flag=True, help="Call the timers too that lie after the end.")
@click.option(
    "--engine",
    type=click.Choice(["python", "spark"]),
    default="python",
    show_default=True,
    help="spark: through topics, state and tasks as it runs live, on servers that are started for it and stopped.",
)
@click.option("--late", type=click.File("wb"), help="Where late elements go; by itself to standard error.")
@json_option()
def command(
    job: str,
    file: Path,
    timeout: str | None,
    settings: tuple[str, ...],
    disorder: str | None,
    batch: int | None,
    interleave: bool,
    seed: int,
    ideal: bool,
    open_end: bool,
    fire_all: bool,
    engine: str,
    late: IO[bytes] | None,
    as_json: bool,
) -> None:
    """Print what a job writes for the elements of a file, in the order of time: no server, no registry, no Spark.

    A line of the file is `{"partition": 0, "offset": 7, "key": "a", "time": "2026-11-02T17:30:15Z", "value": {…}}`, or
    `{"idle": {"partition": 1, "next_offset": 3, "time": "2026-11-02T17:31:00Z"}}`. Late elements and calls that failed
    are told on standard error, as JSON. With `--engine spark` the file goes through Kafka, registry, object
    store and Spark, which are started first.
    """
    from include.clock import iso
    from include.errors import SettingsError
    from include.eventtime.model.duration import duration_us
    from include.eventtime.replay import interleaved, read_lines, replay

    given = dict(_setting(setting) for setting in settings)
    if timeout is not None:
        given["timeout"] = timeout
    process, bound_us = _job(job, given)
    if disorder is not None:
        try:
            bound_us = duration_us(disorder)
        except ValueError as error:
            raise SettingsError(str(error), option="--disorder") from error
    lines = read_lines(file)
    run = functools.partial(replay, batch=batch or 1)
    if engine == "spark":
        run = functools.partial(_on_spark, batch=batch, quiet=as_json)
    made = run(
        process,
        interleaved(lines, seed) if interleave else lines,
        bound_us=bound_us,
        ideal=ideal,
        open_end=open_end,
        fire_all=fire_all,
    )
    outputs = _outputs(process, made.emitted)
    if as_json:
        aside = {
            "late": [_late(element) for element in made.late],
            "failed": [_failed(element) for element in made.failed],
        }
        _print({"outputs": outputs, **aside, "watermark": iso(made.watermark) if lines else None})
        return
    for output in outputs:
        _print(output)
    for element in made.late:
        _print(_late(element), to=late, err=True)
    for failed in made.failed:
        _print(_failed(failed), err=True)


def _on_spark(
    process: Process[Any], lines: Sequence[ReplayLine], *, quiet: bool, batch: int | None, **how: Any
) -> JobReplay:
    from include.clock import SystemClock, iso
    from include.local.eventtime_replay import replay_on_spark

    def say(line: str) -> None:
        if not quiet:
            click.echo(line, err=True)

    times = [line.time for line in lines] or [0]
    first, last = min(times), max(times)

    # As Ctrl-C does, so that nothing is left running.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with progress_bar("watermark", (last - first) // 1_000_000, unit="seconds", quiet=quiet) as bar:

            def tell(watermark: int) -> None:
                if watermark >= first:
                    reached = min(watermark, last)
                    bar.reach((reached - first) // 1_000_000, what=f"watermark {iso(reached)}")

            return replay_on_spark(process, lines, SystemClock(), say=say, tell=tell, batch=batch or _WHOLE, **how)
    finally:
        signal.signal(signal.SIGTERM, before)


def _job(name: str, given: dict[str, Any]) -> tuple[Process[Any], int]:
    """The process and its bound of disorder; what is given goes before what the deployment says."""
    from pydantic import ValidationError

    from include.errors import SettingsError
    from include.eventtime.config.definition import declared_jobs
    from include.eventtime.config.process import process_class, require_sound
    from include.eventtime.jobs import JOBS
    from include.settings.deployment import Deployment
    from include.settings.names import unknown

    bound_us, declared = 5_000_000, {}
    dotted = JOBS.get(name, name)
    if "." not in dotted:
        jobs = declared_jobs(Deployment.load())
        if dotted not in jobs:
            raise unknown(name, [*jobs, *JOBS], "no job of this name is declared in `eventtime`, or comes along")
        entry = jobs[dotted].entry
        dotted, declared, bound_us = entry.process, entry.settings, max(each.bound_us for each in entry.sources)
    kind = process_class(dotted)
    try:
        settings = kind.settings_type.model_validate({**declared, **given})
    except ValidationError as error:
        first = error.errors()[0]
        allowed = sorted(kind.settings_type.model_fields)
        path = ".".join(map(str, first["loc"]))
        raise SettingsError("not a setting of the job", path=path, reason=first["msg"], allowed=allowed) from error
    require_sound(kind, settings)
    return kind(settings), bound_us


def _setting(text: str) -> tuple[str, str]:
    from include.errors import SettingsError

    name, equals, value = text.partition("=")
    if not equals:
        raise SettingsError("a setting is NAME=VALUE", got=text, option="--set")
    return name, value


def _outputs(process: Process[Any], emitted: Sequence[Emitted]) -> list[dict[str, Any]]:
    from include.clock import iso
    from include.eventtime.algorithm.order import key_text
    from include.eventtime.model.typed import DataclassFields

    times = {name: DataclassFields(kind).times() for name, kind in process.outputs.items()}

    def value(output: Emitted) -> dict[str, Any]:
        of = times[output.output]
        return {name: iso(field) if name in of and field is not None else field for name, field in output.value.items()}

    return [
        {
            "output": output.output,
            "key": output.key,
            "time": iso(output.moment.time),
            "value": value(output),
            "version": output.version,
        }
        for output in sorted(emitted, key=lambda each: (each.moment.time, key_text(each.key), each.version))
    ]


def _late(late: LateElement) -> dict[str, Any]:
    from include.clock import iso

    said = {"line": late.line.number, **late.line.said.model_dump(exclude_unset=True)}
    return {"late": {**said, "time": iso(late.line.time), "watermark": iso(late.watermark)}}


def _failed(failed: FailedCall) -> dict[str, Any]:
    from include.clock import iso

    what: dict[str, Any] = {"key": failed.key, "time": iso(failed.moment.time), "reason": failed.reason}
    if failed.element is None:
        return {"failed": {**what, "timer": failed.moment.place[1]}}
    return {"failed": {**what, "partition": failed.element.partition, "offset": failed.element.offset}}


def _print(said: dict[str, Any], to: IO[bytes] | None = None, *, err: bool = False) -> None:
    import orjson

    line = orjson.dumps(said).decode()
    if to is not None:
        to.write(line.encode() + b"\n")
    else:
        click.echo(line, err=err)
