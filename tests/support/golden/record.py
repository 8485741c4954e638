"""Records cases on real servers: `python -m tests.support.golden.record SERVER|all [CASE…]`; see README.md here."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import pymysql

from include.clock import SystemClock
from include.errors import LyrebirdError
from tests.support.golden.case import DATABASE, Case, Fails, In
from tests.support.golden.cases import cases_of
from tests.support.golden.matrix import recorded_on
from tests.support.golden.observer import Observer
from tests.support.golden.recording import Change, Recording, Statement
from tests.support.golden.whole import require_whole
from tests.support.paths import GOLDEN
from tests.support.servers import SERVERS, Server, known, running
from tests.support.servers.fetch import fetch

__all__ = ["main", "record"]

_SQL_LIMIT = 160
_VARIABLES = (
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_checksum",
    "log_bin_compress",
    "gtid_mode",
    "mysql56_temporal_format",
)
_STD_DATA = Path("root/usr/share/mysql/mysql-test/std_data")


class Recorded(Protocol):
    """What can be saved."""

    @property
    def data(self) -> bytes:
        """The binlog file."""

    def save(self, folder: Path) -> None:
        """Write it."""


def record(server: Server, case: Case, observe: Callable[[Server], Observer] = Observer) -> Recording:
    """Run one case on a running server. Its own database is made anew, others of earlier cases are dropped.

    pymysql's errors when a statement is refused that should not be, ValueError when one is not that should be, or when
    the file is not whole.
    """
    row = known(server.name)
    with ExitStack() as stack:
        admin = stack.enter_context(server.connect(charset="utf8mb4"))
        _clear(admin)
        if case.files or case.definitions:
            _lay(case, server, admin)
        for sql in case.restore:
            stack.callback(_run, admin, sql)
        for sql in case.setup:
            _run(admin, sql)
        observer = observe(server)
        stack.callback(observer.close)
        _run(admin, "FLUSH BINARY LOGS")
        file, _ = _place(admin, row.flavour)
        before, variables = _gtid(observer, server), dict(observer.ask(_variables()))
        sessions: dict[str, Any] = {}
        statements: list[Statement] = []
        changes: list[Change] = observer.changes(-1)
        for number, step in enumerate(case.steps(row)):
            sql = step if isinstance(step, str) else step.sql
            name = step.session if isinstance(step, In) else ""
            if name not in sessions:
                sessions[name] = stack.enter_context(server.connect(charset="utf8mb4", database=DATABASE))
            error = step.error if isinstance(step, Fails) else None
            _expect(sessions[name], sql, error)
            statements.append(Statement(_short(sql), name, _place(admin, row.flavour)[1], error))
            changes += observer.changes(number)
        after = _gtid(observer, server)
        _run(admin, "FLUSH BINARY LOGS")
        data = (server.data / file).read_bytes()
        require_whole(data)
        used = {column["COLLATION_NAME"] for c in changes if c.description for column in c.description.columns}
        return Recording(
            server=server.name,
            case=case.name,
            version=server.version,
            flavour=server.flavour,
            variables={name: str(value) for name, value in variables.items()},
            gtid=(before, after),
            collations={n: names for n, names in observer.collations().items() if names[0] in used},
            statements=tuple(statements),
            changes=tuple(changes),
            data=data,
        )


def _clear(admin: Any) -> None:
    with admin.cursor() as cursor:
        cursor.execute("SHOW DATABASES")
        for (name,) in cursor.fetchall():
            if name.startswith(DATABASE):
                cursor.execute(f"DROP DATABASE `{name}`")
        cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")


def _lay(case: Case, server: Server, admin: Any) -> None:
    """Tables of old servers out of MariaDB's test data, which is not ours to keep in the project, or made by hand."""
    folder = server.data / DATABASE
    for pattern in case.files:
        for path in (fetch(known("mariadb-10.11"), SystemClock()) / _STD_DATA).glob(pattern):
            shutil.copyfile(path, folder / path.name)
    for name, content in case.definitions:
        (folder / f"{name}.frm").write_bytes(content)
    _run(admin, "FLUSH TABLES")


def _run(connection: Any, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        cursor.fetchall()


def _expect(connection: Any, sql: str, error: int | None) -> None:
    try:
        _run(connection, sql)
    except pymysql.MySQLError as said:
        if error != said.args[0]:
            raise
    else:
        if error is not None:
            raise ValueError(f"{_short(sql)} should have been refused with {error}")


def _place(admin: Any, flavour: str) -> tuple[str, int]:
    with admin.cursor() as cursor:
        try:
            cursor.execute("SHOW MASTER STATUS" if flavour == "mariadb" else "SHOW BINARY LOG STATUS")
        except pymysql.MySQLError:
            # Before MySQL 8.2.
            cursor.execute("SHOW MASTER STATUS")
        file, position = cursor.fetchone()[:2]
        return file, position


def _gtid(observer: Observer, server: Server) -> str:
    name = "gtid_binlog_pos" if server.flavour == "mariadb" else "global.gtid_executed"
    return str(observer.ask(f"SELECT @@{name}")[0][0])


def _variables() -> str:
    return f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({', '.join(map(repr, _VARIABLES))})"


def _short(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= _SQL_LIMIT else text[:_SQL_LIMIT] + "…"


def _record_all(name: str, cases: Iterable[Case], recorded: Callable[[Server, Case], Recorded]) -> int:
    """Record cases on one server after another that has the options they want; returns how many failed."""
    failed = 0
    for options, group in groupby(sorted(cases, key=lambda case: case.options), key=lambda case: case.options):
        with tempfile.TemporaryDirectory() as folder, running(name, Path(folder), options) as server:
            for case in group:
                try:
                    recording = recorded(server, case)
                except (pymysql.MySQLError, ValueError) as error:
                    failed += 1
                    print(f"{name:14} {case.name}: {error}", file=sys.stderr)
                    continue
                recording.save(GOLDEN)
                print(f"{name:14} {case.name:28} {len(recording.data):7} bytes")
    return failed


def main(words: list[str], recorded: Callable[[Server, Case], Recorded] = record) -> int:
    """Record by `recorded`; returns the exit code."""
    if not words:
        print("usage: python -m tests.support.golden.record SERVER|all [CASE…]", file=sys.stderr)
        return 2
    failed = 0
    for name in [row.name for row in SERVERS] if words[0] == "all" else words[:1]:
        try:
            there = cases_of(name) if words[1:] else recorded_on(name)
            failed += _record_all(name, [there[case] for case in words[1:] or there if case in there], recorded)
        except LyrebirdError as error:
            print(f"error: {error}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
