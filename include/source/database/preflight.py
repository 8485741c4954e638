"""Checks the server before capture may trust its binlog: at every start, and for `check`.

What takes a server with thousands of tables long is asked beside the stream where a capture goes on (`second_look`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from include.errors import SettingsError, Terminal
from include.policy.checks import TableColumns, findings
from include.source.database.account import account
from include.source.database.cascades import cascading_keys, traces
from include.source.database.connection import asked
from include.source.database.finding import FindingLevel, ServerFinding
from include.source.database.purge import WARN_HOURS, PurgeHorizon
from include.source.database.server import AskServer, Server, read_server
from include.source.database.table_info import TableInfo, load_tables, unlogged
from include.source.database.tls import unverified
from include.source.database.unlogged_writes import gaps
from include.source.database.warnings import needs_care
from include.source.definition import SourceDefinition
from include.source.rows.leaving import shape_of

__all__ = ["FindingLevel", "ServerFinding", "first_look", "preflight", "refuse", "second_look", "short_horizon"]


def preflight(source: SourceDefinition) -> list[ServerFinding]:
    """Finds all that is wrong. Raises `Transient`, `Terminal` when the server cannot be asked."""
    return [*first_look(source), *second_look(source)]


def first_look(source: SourceDefinition) -> list[ServerFinding]:
    """Finds what is wrong with settings and privileges; raises as `preflight`."""

    def found(ask: AskServer) -> list[ServerFinding]:
        server = read_server(ask)
        return [
            *unverified(source),
            *_variables(ask, server),
            *gaps(ask, server, source),
            *account(ask, server, source),
            *_databases(ask, source),
        ]

    return asked(source, found)


def second_look(source: SourceDefinition) -> list[ServerFinding]:
    """Finds what is wrong with tables; raises as `preflight`."""

    def found(ask: AskServer) -> list[ServerFinding]:
        server = read_server(ask)
        tables = load_tables(ask, source.databases, source.captures)
        labelled = (server.variable(ask, "binlog_row_metadata") or "").upper() == "FULL"
        return [*_tables(tables, source, server, labelled), *_policy(tables, source), *_cascades(ask, source, server)]

    return asked(source, found)


def short_horizon(horizon: PurgeHorizon) -> list[ServerFinding]:
    """A warning where the server keeps less binlog than a capture needs that is away for a day."""
    if horizon.hours is None and "RDS" in horizon.basis:
        problem = f"is kept for a time that is {horizon.basis}"
        return [ServerFinding("binlog", problem, "Let the account read it, and see that it says 24 or more.", "warn")]
    if not horizon.short:
        return []
    problem = f"purges what is written now after {horizon.hours:.1f} h, by {horizon.basis}"
    fix = f"Keep {WARN_HOURS:.0f} h at least, by expire_logs_days, binlog_expire_logs_seconds or max_binlog_total_size."
    return [ServerFinding("binlog", f"{problem}: a capture that is away for longer has to read all anew", fix, "warn")]


def refuse(source: SourceDefinition, findings: Iterable[ServerFinding]) -> None:
    """Raise `Terminal` with the first finding that refuses, if any, and the number of the others."""
    found = [finding for finding in findings if finding.level == "refuse"]
    if found:
        first = found[0]
        more = f" ({len(found) - 1} more: `lyrebird capture check`)" if len(found) > 1 else ""
        raise Terminal(
            f"the server cannot be captured as it is: {first.place} {first.problem}{more}",
            server=source.place,
            fix=first.fix,
        )


def _variables(ask: AskServer, server: Server) -> Iterator[ServerFinding]:
    """Settings; a variable that an old server lacks says nothing."""

    def of(name: str) -> str:
        return (server.variable(ask, name) or "").upper()

    if of("log_bin") != "ON":
        yield ServerFinding("log_bin", "is off", "Start the server with --log-bin.")
    if of("binlog_format") not in ("ROW", ""):
        yield ServerFinding("binlog_format", f"is {of('binlog_format')}, not ROW", "SET GLOBAL binlog_format = ROW.")
    if of("binlog_row_image") not in ("FULL", "FULL_NODUP", ""):
        yield ServerFinding("binlog_row_image", f"is {of('binlog_row_image')}", "SET GLOBAL binlog_row_image = FULL.")
    metadata = of("binlog_row_metadata")
    if metadata != "FULL":
        costs = (
            "each statement logs a name and a byte for each column of its tables then, and the labels of ENUM and SET"
        )
        fix = f"SET GLOBAL binlog_row_metadata = FULL; {costs}."
        fix = fix if metadata else "Stop writes, or resume the table, at an ALTER."
        problem = "the binlog does not name columns: information_schema does, as long as nobody alters a table"
        yield ServerFinding("binlog_row_metadata", f"is {metadata or 'not known here'}; {problem}", fix, "warn")
    if server.flavour == "mariadb" and of("gtid_strict_mode") == "OFF":
        problem = "is off: a write that numbers transactions anew stops the source"
        yield ServerFinding("gtid_strict_mode", problem, "SET GLOBAL gtid_strict_mode = 1.", "warn")
    if (server.variable(ask, "system_versioning_asof") or "DEFAULT").upper() != "DEFAULT":
        problem = "is set: a snapshot would read rows of the past"
        yield ServerFinding("system_versioning_asof", problem, "SET GLOBAL system_versioning_asof = DEFAULT.")
    if not server.gtids:
        problem = "is off: positions are bytes of this server's files, and capture cannot move to another server"
        yield ServerFinding("gtid_mode", problem, "Turn GTIDs on if the server can.", "warn")


def _cascades(ask: AskServer, source: SourceDefinition, server: Server) -> Iterator[ServerFinding]:
    """Keys whose changes InnoDB makes by itself; MySQL logs them since 9.6, MariaDB leaves a trace since 10.2."""
    trace = traces(server)
    if trace == "rows":
        return
    for database, table, constraint, referenced in cascading_keys(ask, source.databases):
        if not source.captures(database, table):
            continue
        shown = trace == "maps" and referenced != table
        what = "a mail says when it happens" if shown else "nothing in the binlog tells that it happened"
        yield ServerFinding(
            f"{database}.{table}",
            f"foreign key {constraint} changes rows by cascade, which this server does not log: {what}",
            "Make it RESTRICT, or drop the table in the source's `filter`.",
            "warn" if shown else "refuse",
        )


def _databases(ask: AskServer, source: SourceDefinition) -> list[ServerFinding]:
    there = {str(row[0]) for row in ask("SHOW DATABASES")}
    return [
        ServerFinding(
            f"database {name}", "is not there, or the account may not read it", "Create it, or GRANT SELECT on it."
        )
        for name in source.databases
        if name not in there
    ]


def _policy(tables: Mapping[tuple[str, str], TableInfo], source: SourceDefinition) -> list[ServerFinding]:
    server_findings: list[ServerFinding] = []
    asked = {name: TableColumns(tuple(info.columns), info.key) for name, info in tables.items()}
    for error in findings(source.policy, asked):
        problem = str(SettingsError(error.message, **{k: v for k, v in error.details.items() if k != "path"}))
        server_findings.append(ServerFinding(error.details["path"], problem, error.fix))
    for rule in source.policy.rules:
        if rule.passes and rule.pattern.exact and not any(rule.pattern.matches(*name) for name in tables):
            at = source.policy.origin.place(("filter", rule.pattern.text))
            server_findings.append(
                ServerFinding(at, "names no table that the server has", "Correct it, or make the table.", "warn")
            )
    return server_findings


def _tables(
    tables: Mapping[tuple[str, str], TableInfo], source: SourceDefinition, server: Server, labelled: bool
) -> list[ServerFinding]:
    server_findings: list[ServerFinding] = []
    aside = "Drop the table in the source's `filter`, or change it."
    for name, info in tables.items():
        table = ".".join(name)
        if not info.transactional:
            problem = f"is a table of {info.engine or 'no engine'}: snapshots see it while it changes"
            server_findings.append(
                ServerFinding(table, problem, "Snapshot it while nobody writes, or change its engine.", "warn")
            )
        server_findings += [ServerFinding(*each, "warn") for each in needs_care(info, source, server, labelled)]
        if info.by_transactions:
            problem = "is system-versioned by transactions, whose changes MariaDB logs as text"
            server_findings.append(ServerFinding(table, problem, aside))
        try:
            shape_of(
                name,
                tuple(info.columns),
                info.key,
                frozenset(info.nullable),
                unlogged(info, server),
                source.policy.of(*name),
            )
        except Terminal as refused:
            column = str(refused.details.get("column", ""))
            server_findings.append(
                ServerFinding(f"{table}.{column}" if column else table, refused.message, refused.fix or aside)
            )
        missing = [c for c in source.partition_columns(*name) if c not in {x.name for x in info.columns}]
        nullable = [c for c in source.partition_columns(*name) if c in info.nullable]
        server_findings += [
            ServerFinding(
                f"{table}.{column}", "chooses the partition, but is missing or may be null", "Correct `partition_by`."
            )
            for column in (*missing, *nullable)
        ]
    return server_findings
