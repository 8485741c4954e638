"""`lyrebird shop`: make the shop, let orders run, and print what search must answer for them."""

from __future__ import annotations

import dataclasses
import sys

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from demo.shop.connection import ShopServer
from demo.shop.counts import CommittedRow, ShopCounts
from demo.shop.generator import Shop
from demo.shop.schema import TABLES
from demo.shop.truth import truth
from include.cli.json_option import json_option
from include.clock import SystemClock
from include.errors import SettingsError

__all__ = ["command"]

_PLAIN_LINE_EVERY_S = 5.0

_SAID = {
    "placed": "orders placed",
    "completed": "rows completed",
    "changed": "changes begun",
    "rolled_back": "changes rolled back",
    "cancelled": "orders cancelled by the guest",
    "declined": "orders cancelled, as the first payment failed",
    "reviews": "reviews",
    "errands": "changes of reference data",
    "transactions": "transactions",
    "repeats": "transactions run again",
}

database_option = click.option(
    "--database", default="shop", show_default=True, help="Database of the shop on the server."
)


@click.group(name="shop", help="A shop that writes orders into MySQL, and what search must answer for them.")
def command() -> None:
    """Group of the shop's commands."""


@command.command(name="apply")
@database_option
@json_option()
def apply_shop(database: str, as_json: bool) -> None:
    """Make the shop's tables and reference data where they are missing; changes nothing that is there."""
    server = ShopServer.from_environment(database)
    with _prepared(server, seed=0, writers=1):
        pass
    if as_json:
        _print_json({"database": database, "tables": list(TABLES)})
    else:
        click.echo(f"{len(TABLES)} tables in database {database} on {server.host}:{server.port}")


@command.command(name="run")
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), default=10.0, show_default=True, help="Orders per second."
)
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Place orders for so long.")
@click.option("--orders", type=click.IntRange(min=1), help="Place so many orders.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same orders.")
@click.option("--writers", type=click.IntRange(1, 64), default=4, show_default=True, help="Connections that write.")
@click.option(
    "--pace",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Mean time between two steps of an order, in seconds.",
)
@database_option
@json_option()
def run_shop(
    rate: float,
    seconds: float | None,
    orders: int | None,
    seed: int,
    writers: int,
    pace: float,
    database: str,
    as_json: bool,
) -> None:
    """Place orders and carry each through its life: pay, change, roll back, cancel, review.

    Without --seconds and --orders it goes on until Ctrl-C. At the end, orders in flight are brought to theirs; a
    second Ctrl-C leaves them as they are.
    """
    if seconds is not None and orders is not None:
        raise SettingsError(
            "two ends of one run", seconds=seconds, orders=orders, fix="Give --seconds or --orders, not both."
        )
    clock = SystemClock()
    with _prepared(ShopServer.from_environment(database), seed=seed, writers=writers, pace_s=pace) as shop:
        began_s = clock.monotonic_s()
        with _Shown(orders, quiet=as_json) as shown:
            try:
                shop.run(rate, seconds=seconds, orders=orders, on_event=shown.on_event)
            except KeyboardInterrupt:
                shown.say("stopped; finishing the orders in flight")
            shop.quiesce(shown.on_event)
        _print_counts(shop.counts, clock.monotonic_s() - began_s, as_json)


@command.command(name="truth")
@click.option("--order", "order_id", type=click.IntRange(min=1), help="Only this order_id.")
@json_option("Print one JSON array instead of one object per line.")
@click.option("--ndjson", is_flag=True, help="One JSON object per line (the default).")
@database_option
def print_truth(order_id: int | None, as_json: bool, ndjson: bool, database: str) -> None:
    """Print from MySQL what search must answer for each order, computed apart from the pipeline."""
    if as_json and ndjson:
        raise SettingsError("two forms of one output", fix="Give --json or --ndjson, not both.")
    connection = ShopServer.from_environment(database).connect()
    try:
        count = 0
        for count, body in enumerate(truth(connection, order_id), 1):
            text = orjson.dumps(body).decode()
            click.echo(("[" if count == 1 else ",") + text if as_json else text)
        if as_json:
            click.echo("]" if count else "[]")
    finally:
        connection.close()
    if order_id is not None and not count:
        raise SettingsError(
            "this order is not in a final state, or was never placed",
            order_id=order_id,
            fix="See `lyrebird shop truth` for those that are.",
        )


class _Shown:
    """Progress of a run on stderr: a live line on a terminal, plain lines every few seconds elsewhere."""

    def __init__(self, orders: int | None, *, quiet: bool) -> None:
        self._clock = SystemClock()
        self._quiet = quiet
        self._orders = orders
        self._placed = 0
        self._final = 0
        self._next_line_s = self._clock.monotonic_s() + _PLAIN_LINE_EVERY_S
        console = Console(stderr=True)
        self._live: Progress | None = None
        if console.is_terminal and not quiet:
            columns = (
                SpinnerColumn(),
                TextColumn("orders placed {task.completed}"),
                BarColumn(),
                TextColumn("{task.fields[final]} final rows"),
                TimeElapsedColumn(),
            )
            self._live = Progress(*columns, console=console)
            self._task = self._live.add_task("orders", total=orders, final=0)

    def __enter__(self) -> _Shown:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def on_event(self, event: CommittedRow) -> None:
        """Count one committed row of `orders`."""
        self._placed += event.kind == "place"
        self._final += event.final
        if self._live is not None:
            self._live.update(self._task, completed=self._placed, final=self._final)
        elif self._clock.monotonic_s() >= self._next_line_s:
            self._next_line_s += _PLAIN_LINE_EVERY_S
            total = "" if self._orders is None else f" of {self._orders}"
            self.say(f"orders placed {self._placed}{total}, final rows {self._final}")

    def say(self, line: str) -> None:
        """Print one line, unless only JSON is wanted."""
        if self._quiet:
            return
        if self._live is not None:
            self._live.console.print(line, highlight=False)
        else:
            click.echo(line, err=True)


def _prepared(server: ShopServer, *, seed: int, writers: int, pace_s: float = 1.0) -> Shop:
    server.create_database()
    shop = Shop(server.connect, seed, writers=writers, pace_s=pace_s)
    shop.prepare()
    return shop


def _print_counts(counts: ShopCounts, took_s: float, as_json: bool) -> None:
    values = dataclasses.asdict(counts)
    if as_json:
        _print_json({**values, "seconds": round(took_s, 3)})
        return
    for name, said in _SAID.items():
        if values[name] or name == "placed":
            click.echo(f"{values[name]:>10,}  {said}")
    click.echo(f"{took_s:>10.1f}  seconds")


def _print_json(value: object) -> None:
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
