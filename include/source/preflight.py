"""What must be right on the server before capture may trust its binlog; asked at every start and by `check`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from include.errors import SettingsError, Terminal
from include.source.connection import connect, query
from include.source.definition import SourceDefinition
from include.source.policy_checks import TableColumns, findings
from include.source.tables import TableInfo, load_tables
from include.source.values import charset_decoder

__all__ = ["Finding", "preflight", "refuse"]

_WANTED: Final = {
    "log_bin": ("1", "Start the server with --log-bin."),
    "binlog_format": ("ROW", "SET GLOBAL binlog_format = ROW."),
    "binlog_row_image": ("FULL", "SET GLOBAL binlog_row_image = FULL."),
    "binlog_row_metadata": ("FULL", "SET GLOBAL binlog_row_metadata = FULL."),
    "log_bin_compress": ("0", "SET GLOBAL log_bin_compress = OFF."),
    "encrypt_binlog": ("0", "Start the server with --encrypt-binlog=OFF."),
    "gtid_strict_mode": ("1", "SET GLOBAL gtid_strict_mode = 1."),
}
_GRANTS: Final = {
    "REPLICATION SLAVE": ("REPLICATION SLAVE", "REPLICATION REPLICA"),
    "BINLOG MONITOR": ("BINLOG MONITOR", "REPLICATION CLIENT"),
}
_CASCADES: Final = """
SELECT constraint_schema, table_name, constraint_name, delete_rule, update_rule
FROM information_schema.referential_constraints
WHERE constraint_schema IN ({}) AND (delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
                                     OR update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT'))"""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that stands in the way; `place` is a variable, a grant or `table.column`."""

    place: str
    problem: str
    fix: str


def preflight(source: SourceDefinition) -> list[Finding]:
    """All that is wrong; empty = capture may start. Raises `Transient`, `Terminal` when the server cannot be asked."""
    connection = connect(source)
    try:

        def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            return query(connection, source, sql, *values)

        version = str(ask("SELECT VERSION()")[0][0])
        if "mariadb" not in version.lower():
            return [Finding("server", f"is {version}, not MariaDB", "Only MariaDB 11.4 is captured by this release.")]
        found = [*_variables(ask), *_grants(ask), *_databases(ask, source)]
        tables, _ = load_tables(ask, source.databases, source.captures)
        found += [*_tables(tables, source), *_policy(tables, source)]
        marks = ", ".join(["%s"] * len(source.databases))
        cascades = ask(_CASCADES.format(marks), *source.databases)
        found += [
            Finding(
                f"{row[0]}.{row[1]}",
                f"foreign key {row[2]} changes rows by cascade, which MariaDB does not log",
                "Make it RESTRICT, or drop the table in the source's `filter`.",
            )
            for row in cascades
            if source.captures(row[0], row[1])
        ]
        return found
    finally:
        connection.close()


def refuse(source: SourceDefinition, findings: Iterable[Finding]) -> None:
    """Raise `Terminal` with the first finding, if any, and the number of the others."""
    found = list(findings)
    if found:
        first = found[0]
        more = f" ({len(found) - 1} more: `lyrebird capture check`)" if len(found) > 1 else ""
        raise Terminal(
            f"the server cannot be captured as it is: {first.place} {first.problem}{more}",
            server=source.place,
            fix=first.fix,
        )


def _variables(ask: Any) -> list[Finding]:
    names = list(_WANTED)
    values: Mapping[str, str] = dict(
        zip(names, (str(v) for v in ask("SELECT " + ", ".join(f"@@global.{n}" for n in names))[0]), strict=True)
    )
    return [
        Finding(name, f"is {values[name]}, not {wanted}", fix)
        for name, (wanted, fix) in _WANTED.items()
        if values[name].upper() != wanted
    ]


def _grants(ask: Any) -> list[Finding]:
    text = " ".join(str(row[0]).upper() for row in ask("SHOW GRANTS"))
    if "ALL PRIVILEGES ON *.*" in text:
        return []
    return [
        Finding("account", f"lacks {name}", f"GRANT {name} ON *.* to it.")
        for name, spellings in _GRANTS.items()
        if not any(spelling in text for spelling in spellings)
    ]


def _databases(ask: Any, source: SourceDefinition) -> list[Finding]:
    there = {str(row[0]) for row in ask("SHOW DATABASES")}
    return [
        Finding(f"database {name}", "is not there, or the account may not read it", "Create it, or GRANT SELECT on it.")
        for name in source.databases
        if name not in there
    ]


def _policy(tables: Mapping[tuple[str, str], TableInfo], source: SourceDefinition) -> list[Finding]:
    found: list[Finding] = []
    if not source.policy.whole:
        # Decoders take no policy: what is listed would leave as it is.
        aside = "Drop those tables whole, or take the columns off the list."
        found.append(Finding("filter", "leaves out or masks columns, and capture would send them", aside))
    asked = {name: TableColumns(tuple(info.columns), info.key) for name, info in tables.items()}
    for error in findings(source.policy, asked):
        problem = str(SettingsError(error.message, **{k: v for k, v in error.details.items() if k != "path"}))
        found.append(Finding(error.details["path"], problem, error.fix))
    return found


def _tables(tables: Mapping[tuple[str, str], TableInfo], source: SourceDefinition) -> list[Finding]:
    found: list[Finding] = []
    aside = "Drop the table in the source's `filter`, or change it."
    for name, info in tables.items():
        table = ".".join(name)
        if info.engine.lower() != "innodb":
            found.append(Finding(table, f"is a table of {info.engine or 'no engine'}, not InnoDB", aside))
        if info.versioned:
            found.append(Finding(table, "is system-versioned", aside))
        for column in info.columns:
            try:
                column.avro()
                if column.charset is not None:
                    charset_decoder(column.charset, table, column.name)
            except Terminal as refused:
                kind = column.charset if column.charset is not None and "set" in refused.message else column.type
                found.append(Finding(f"{table}.{column.name}", f"{refused.message}: {kind}", aside))
        try:
            info.schema()
        except Terminal as refused:
            if "key" in refused.message:
                found.append(Finding(table, refused.message, refused.fix))
        missing = [c for c in source.partition_columns(*name) if c not in {x.name for x in info.columns}]
        nullable = [c for c in source.partition_columns(*name) if c in info.nullable]
        found += [
            Finding(
                f"{table}.{column}", "chooses the partition, but is missing or may be null", "Correct `partition_by`."
            )
            for column in (*missing, *nullable)
        ]
    return found
