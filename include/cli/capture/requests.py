"""`lyrebird capture snapshot`, `reread` and `resume-table`: requests that the running capture carries out."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import TYPE_CHECKING

import click
import orjson

from include.cli.capture.options import source_option, tables_option
from include.cli.capture.snapshot import refuse_unknown, require_condition, require_tables, show_plan, waiting
from include.cli.json_option import json_option
from include.clock import SystemClock
from include.log.requests.records import RequestKind
from include.source.run_params import SnapshotRun

if TYPE_CHECKING:
    from include.log.ports import LogReader

__all__ = ["request_snapshot", "reread_tables", "resume_table", "take_snapshot"]

_id_option = click.option("--id", "id_", default="", help="The request's id; each is carried out once. Default: new.")
_wait_option = click.option("--wait", is_flag=True, help="Return when it is done.")
_timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=1), default=3600.0, show_default=True, help="Longest wait, s."
)


@click.command(name="snapshot")
@source_option
@tables_option
@SnapshotRun.options("where", "rows_per_s", "plan")
@_id_option
@_wait_option
@_timeout_option
@json_option()
def take_snapshot(
    name: str,
    tables: str,
    where: str,
    rows_per_s: int | None,
    plan: bool,
    id_: str,
    wait: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Ask the running capture to read tables again, while it goes on following the binlog."""
    asked = tuple(part.strip() for part in tables.split(",") if part.strip())
    if plan:
        show_plan(name, asked, where, rows_per_s, as_json)
        return
    _ask(name, "snapshot", asked, id_, timeout if wait else 0.0, as_json, where, rows_per_s)


# The name of before: the same command, not listed.
request_snapshot = click.Command(
    "request-snapshot",
    params=take_snapshot.params,
    callback=take_snapshot.callback,
    help="The older name of `snapshot`.",
    hidden=True,
)


@click.command(name="resume-table")
@source_option
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True)
@_id_option
@_wait_option
@_timeout_option
@json_option()
def resume_table(name: str, tables: tuple[str, ...], id_: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Ask the running capture to take up tables again that it set aside, or that may lack changes by cascade.

    Each TABLE (`orders` or `shop.orders`) is read whole; what went meanwhile is removed from its copies at the end. Of
    one whose key columns changed the topic is deleted and made again, and whoever reads it has to begin anew.
    """
    _ask(name, "resume_table", tables, id_, timeout if wait else 0.0, as_json)


@click.command(name="reread")
@source_option
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True)
@click.option(
    "--key",
    "keys",
    multiple=True,
    help='Only this row of one table: `order_id=7`, or `{"a": "1", "b": "x"}` of several columns; again for another.',
)
@_id_option
@_wait_option
@_timeout_option
@json_option()
def reread_tables(
    name: str, tables: tuple[str, ...], keys: tuple[str, ...], id_: str, wait: bool, timeout: float, as_json: bool
) -> None:
    """Ask the running capture to replace what the log has of tables by what they are now.

    For a TABLE (`orders` or `shop.orders`) whose ignored columns or masks were changed: rows of before stand in its
    topic as the older policy made them. It is not covered until all its rows are read; the older ones are gone then.

    With --key only these rows are read again, and the table stays covered; one that is not there any more is deleted.
    """
    asked = tuple(map(_key, keys))
    _ask(name, "reread", tables, id_, timeout if wait else 0.0, as_json, keys=asked)


def _key(text: str) -> str:
    from include.source.snapshot.wanted_keys import key_text

    column, equals, value = text.partition("=")
    return key_text({column.strip(): value}) if equals and not text.lstrip().startswith("{") else text


def _ask(
    name: str,
    kind: RequestKind,
    tables: tuple[str, ...],
    id_: str,
    wait_s: float,
    as_json: bool,
    where: str = "",
    rows_per_s: int | None = None,
    keys: tuple[str, ...] = (),
) -> None:
    """Append the request unless its id was answered before, and wait for the last answer, `wait_s` at most."""
    from include.log.kafka.log import KafkaReader
    from include.log.requests.asking import ask_and_wait
    from include.log.requests.records import Request
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment
    from include.source.definition import load_source

    deployment = Deployment.load()
    source = load_source(deployment, name)
    require_condition(source, where, tables)
    kafka, clock, id_ = deployment.one("kafka", Kafka), SystemClock(), id_ or str(uuid.uuid4())
    if kind != "resume_table":
        require_tables(source, tables)

    def check() -> None:
        if kind == "resume_table":
            with closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader:
                wanting = _wanting(reader, name)
            refuse_unknown(tables, wanting, "no tables set aside or in want of rows have this name")

    command = f"lyrebird capture {kind.replace('_', '-')}"
    request = Request(id_, kind, command, clock.now_us(), tables, keys, where, rows_per_s)
    with waiting(as_json) as show:
        status = f"lyrebird capture status --source {name}"
        answer = ask_and_wait(kafka, f"cdc.{name}", request, clock, wait_s, status=status, check=check, tell=show)
    state, rows = (answer.state, answer.done) if answer else ("requested", 0)
    found = {"source": name, "id": id_, "state": state, "rows": rows}
    click.echo(orjson.dumps(found).decode() if as_json else f"request {id_}: {state}, {rows:,} rows")


def _wanting(reader: LogReader, name: str) -> set[str]:
    """The tables that capture set aside, or that want rows, by its newest resolved record."""
    from include.log.topics import source_resolved
    from include.source.log.checkpoint import newest
    from include.source.state.capture_state import CaptureState

    last = newest(reader, source_resolved(name))
    state = CaptureState() if last is None else CaptureState.from_json(last.state)
    return {*state.aside, *state.orphans}
