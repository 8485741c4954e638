"""`lyrebird capture policy`: what the filter policy of a source lets pass, and why."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.cli.capture.options import source_option
from include.cli.json_option import json_option
from include.cli.table import table
from include.errors import Terminal, Transient

if TYPE_CHECKING:
    from include.policy.checks import TableColumns
    from include.policy.report import TablePolicyReport
    from include.source.definition import SourceDefinition

__all__ = ["show_policy"]


@click.command(name="policy")
@source_option
@click.option("--explain", "explained", metavar="TABLE", help="This table, column by column: `orders`, `shop.orders`.")
@json_option()
def show_policy(name: str, explained: str | None, as_json: bool) -> None:
    """Say which tables pass the filter policy, without which columns, and which line of the file decided.

    Asks the server for its tables and columns. Where it does not answer, says so and shows what the file alone tells.
    Exit code 1: the policy does not fit the tables, and capture would not start.
    """
    from include.policy.checks import findings
    from include.policy.report import named_tables, report, tables_meant
    from include.settings.deployment import Deployment
    from include.source.definition import load_source

    source = load_source(Deployment.load(), name)
    policy = source.policy
    silent, tables, unused, problems = "", None, [], []
    if explained is None or any(policy.of(*table_name).passes for table_name in tables_meant(policy, explained, None)):
        tables, silent = _tables(source)
    if explained is not None:
        reports = [report(policy, table_name, tables) for table_name in tables_meant(policy, explained, tables)]
        problems = [problem for table_report in reports for problem in table_report.problems]
    elif tables is None:
        reports = named_tables(policy)
    else:
        reports = [report(policy, table_name, tables) for table_name in tables]
        unused = policy.unused(tables)
        problems = [str(error) for error in findings(policy, tables)]
    if as_json:
        value: dict[str, Any] = {
            "source": name,
            "server": source.place,
            "asked": tables is not None,
            "unreachable": silent or None,
            "filter_policy": policy.default,
            "tables": [dataclasses.asdict(table_report) for table_report in reports],
            "unused": unused,
            "problems": problems,
        }
        click.echo(orjson.dumps(value).decode())
    else:
        lines = _explained(reports) if explained is not None else [_listed(reports)]
        if silent:
            lines.append(f"this is what the deployment files alone tell, as the server does not: {silent}")
        elif tables is None:
            lines.append("the server was not asked: no column is needed to tell")
        if unused:
            lines.append(f"entries that decide no table of the server: {', '.join(unused)}")
        click.echo("\n".join([*lines, *(f"problem: {problem}" for problem in problems)]))
    if problems:
        sys.exit(1)


def _tables(source: SourceDefinition) -> tuple[dict[tuple[str, str], TableColumns] | None, str]:
    """The tables of the captured databases; else None, and why the server did not tell."""
    from include.policy.checks import TableColumns
    from include.source.database.connection import connect, query
    from include.source.database.table_info import load_tables

    try:
        connection = connect(source)
        try:

            def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
                return query(connection, source, sql, *values)

            tables = load_tables(ask, source.databases, lambda _database, _table: True)
        finally:
            connection.close()
    except (Transient, Terminal) as refused:
        return None, str(refused)
    return {name: TableColumns(tuple(info.columns), info.key) for name, info in tables.items()}, ""


def _listed(reports: Sequence[TablePolicyReport]) -> str:
    rows = [(each.table, "passes" if each.passes else "dropped", _summary(each), each.why) for each in reports]
    passing = sum(each.passes for each in reports)
    return f"{table(('table', 'verdict', 'columns', 'why'), rows)}\n{passing} of {len(reports)} pass"


def _summary(found: TablePolicyReport) -> str:
    """What differs from the table as it is."""
    ignored = [each.name for each in found.columns if each.fate == "ignored"]
    parts = [f"without {', '.join(ignored)}"] if ignored else []
    parts += [f"{each.name} {each}" for each in found.columns if each.fate == "masked"]
    return "; ".join(parts) or ("all" if found.passes else "-")


def _explained(reports: Sequence[TablePolicyReport]) -> list[str]:
    lines = []
    for table_report in reports:
        lines.append(f"{table_report.table} {'passes' if table_report.passes else 'is dropped'}: {table_report.why}")
        if table_report.known is False:
            lines.append("  the server has no such table: this is what would become of one")
        elif not table_report.passes:
            lines.append("  no column of it leaves")
        width = max((len(column.name) for column in table_report.columns), default=0)
        lines += [f"  {column.name.ljust(width)}  {column}" for column in table_report.columns]
        if table_report.passes and not table_report.known:
            lines.append("  other columns as they are")
    return lines
