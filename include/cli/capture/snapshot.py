"""Prints a snapshot's plan, and its progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import orjson

from include.cli.progress_bar import progress_bar
from include.cli.table import duration, size, table
from include.clock import SystemClock
from include.errors import LyrebirdError

if TYPE_CHECKING:
    from include.log.requests.records import Answer
    from include.source.definition import SourceDefinition
    from include.source.snapshot.plan import SnapshotPlan

__all__ = ["refuse_unknown", "require_condition", "require_tables", "show_plan", "waiting"]


def require_condition(source: SourceDefinition, where: str, tables: tuple[str, ...]) -> None:
    """Raise `ConditionError` for a condition that capture would refuse, as far as the declaration tells."""
    from include.source.snapshot.condition import Condition, require_policy

    named = [
        part for table in tables for part in ([table] if "." in table else [f"{d}.{table}" for d in source.databases])
    ]
    require_policy(Condition.parse(where), [source.policy.of(*table.split(".", 1)) for table in named])


def require_tables(source: SourceDefinition, tables: tuple[str, ...]) -> None:
    """Raise `SettingsError` for a table that the source's server does not have, or that is not captured.

    Where the server does not let itself be asked from here, says so: capture judges the names then.
    """
    from include.source.snapshot.plan import captured_tables

    if not tables:
        return
    try:
        known = captured_tables(source, SystemClock())
    except LyrebirdError as error:
        click.echo(f"the names of tables were not checked: {error}", err=True)
        return
    refuse_unknown(tables, known, "there are no captured tables of this name")


def refuse_unknown(tables: tuple[str, ...], known: Collection[str], message: str) -> None:
    """Raise `SettingsError` for the first that is none of `known`, by its full name or the table's alone."""
    from include.settings.names import unknown
    from include.source.snapshot.plan import full_names

    _, wrong = full_names(tables, known)
    if wrong:
        raise unknown(wrong[0], known, message, tables=wrong)


def show_plan(name: str, tables: tuple[str, ...], where: str, rows_per_s: int | None, as_json: bool) -> None:
    """Print what a snapshot of these tables would read; raises for names that are not captured, and bad conditions."""
    from include.settings.deployment import Deployment
    from include.source.definition import load_source
    from include.source.snapshot.plan import read_plan

    source = load_source(Deployment.load(), name)
    require_tables(source, tables)
    plan = read_plan(name, source, tables, where, rows_per_s, SystemClock())
    click.echo(orjson.dumps(plan.to_json()).decode() if as_json else _plan(plan, where))


def _plan(plan: SnapshotPlan, where: str) -> str:
    rows = [
        [each.table, f"{each.rows:,}", size(each.bytes), ", ".join(each.key) or "-", f"{each.chunks:,}", each.note]
        for each in sorted(plan.tables, key=lambda each: -each.bytes)
    ]
    limit = f"at most {plan.rows_per_s:,} rows/s" if plan.rows_per_s else "without a limit of rows/s"
    ends = f", so {duration(plan.least_s)} or more" if plan.least_s is not None else ""
    chosen = f"; only rows for which {where}" if where else ""
    return "\n".join(
        (
            table(("table", "rows, about", "size", "key", "chunks", ""), rows, ("rows, about", "size", "chunks")),
            f"{len(rows)} tables, about {plan.rows:,} rows, by {plan.workers} connections {limit}{ends}{chosen}",
        )
    )


@contextmanager
def waiting(quiet: bool) -> Iterator[Callable[[Answer | None], None]]:
    """Show the answers to a request."""
    with progress_bar("waits for capture", unit="rows", quiet=quiet, estimated=True) as bar:

        def show(answer: Answer | None) -> None:
            if answer is not None:
                bar.reach(answer.done, answer.total, answer.state)

        yield show
