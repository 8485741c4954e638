"""Reads the source's tables with pymysql: one connection, one read-only snapshot at a time.

The account needs SELECT alone (with `fallbacks` on MariaDB BINLOG MONITOR too, as capture's has). IN lists hold at
most 1,000 keys. A snapshot is a transaction `WITH CONSISTENT SNAPSHOT, READ ONLY` that is ended as soon as the batch
has read, to spare the server's undo log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import Any, Final

import pymysql
from pymysql.cursors import SSCursor
from typing_extensions import override

from include.clock import Clock, SystemClock
from include.document.database import DatabaseAddress, tls_options
from include.document.reading.mysql_values import CONVERSIONS, keeps_blanks, quoted, selected
from include.document.reading.read_after import BEGIN, begin_after
from include.document.reading.tables import KEYS_AT_ONCE, NoSuchTable, RowKeys, SourceTables, TableRow, Tables
from include.errors import LyrebirdError, Terminal, Transient
from include.record.position import SourcePosition
from include.record.schema import Column
from include.record.settling import Settling

__all__ = ["MysqlTables"]

_ACCESS_DENIED: Final = frozenset({1044, 1045, 1142, 1143, 1227, 1698})
_GONE: Final = frozenset({1049, 1054})
_NO_TABLE: Final = 1146
_BINLOG_STATUS: Final = "SHOW MASTER STATUS"
_MYSQL_PLAN: Final = 12
"""Columns of MySQL's EXPLAIN; MariaDB's has 10."""


class MysqlTables(SourceTables, Tables):
    """The tables of one database, each answer waited for `read_s` at most.

    Belongs to one thread; reconnects at the next call when the server went away. Of a server with fallbacks the next
    one is tried when one does not answer, or lacks what it should have by now.
    """

    def __init__(
        self, server: DatabaseAddress, database: str, clock: Clock | None = None, *, read_s: float = 60
    ) -> None:
        self._server = server
        self._database = database
        self._read_s = read_s
        self._clock = clock or SystemClock()
        self._turn = 0
        self._connection: pymysql.connections.Connection[Any] | None = None
        self._known: dict[str, dict[str, Column]] = {}
        self._collations: dict[tuple[str, str], tuple[str, str]] = {}
        self._primary: dict[str, list[str]] = {}
        self._settling: Settling | None = None

    @contextmanager
    @override
    def snapshot(self, after: SourcePosition | None = None) -> Iterator[Tables]:
        """Column types are asked for anew after each reconnection."""
        try:
            if after is None:
                self._execute(BEGIN)
            else:
                host, port = self._at
                server = self._server.model_copy(update={"host": host, "port": port})
                begin_after(self._execute, after, server, self._clock, self._settled)
        except Transient:
            self.close()
            self._turn += 1
            self._settling = None
            raise
        try:
            yield self
        finally:
            if self._connection is not None:
                with suppress(pymysql.err.Error, OSError):
                    self._connection.rollback()

    def _settled(self) -> Settling:
        """Of the server at hand; it keeps what the account may not ask."""
        if self._settling is None:
            ((text,),) = self._execute("SELECT VERSION()")
            major, minor, patch, *_ = (*map(int, re.findall(r"\d+", str(text))[:3]), 0, 0, 0)
            self._settling = Settling(
                lambda sql: self._execute(sql.replace("%", "%%")), (major, minor, patch), _BINLOG_STATUS, self._clock
            )
        return self._settling

    @override
    def columns(self, table: str) -> dict[str, Column]:
        if table not in self._known:
            rows = self._execute(
                "SELECT column_name, data_type, column_type, numeric_precision, numeric_scale, character_set_name,"
                " collation_name, column_key, datetime_precision FROM information_schema.columns"
                # By bytes, too: where the server folds letters, masks are declared for the name that it has. The plain
                # comparison is what lets it open one table alone.
                " WHERE table_schema = %s AND table_name = %s"
                " AND CAST(table_schema AS BINARY) = %s AND CAST(table_name AS BINARY) = %s ORDER BY ordinal_position",
                (self._database, table) * 2,
            )
            if not rows:
                raise Terminal(
                    "no such table, or no right to read it",
                    server=self._place,
                    table=f"{self._database}.{table}",
                    user=self._server.user,
                    fix="Mend the entry in `documents`, or grant SELECT on it.",
                )
            self._known[table] = {}
            self._primary[table] = [name for name, *_, indexed, _ in rows if indexed == "PRI"]
            for name, kind, full, precision, scale, charset, collation, _, digits in rows:
                length = precision if kind.lower() == "bit" else 0
                self._known[table][name] = Column(
                    name, kind.lower(), "unsigned" in full, precision, scale, charset, digits=digits or 0, length=length
                )
                self._collations[table, name] = charset or "", collation or ""
        return self._known[table]

    @override
    def rows(
        self, table: str, columns: Sequence[str], match: Sequence[str], values: RowKeys, most: int | None = None
    ) -> list[TableRow]:
        known = self._typed(table)
        names = ", ".join(selected(name, known.get(name)) for name in columns)
        where = ", ".join(quoted(name) for name in match)
        one = len(match) == 1
        distinct = ""
        if most is not None:
            # Their bytes too, else of texts that a collation holds equal only one would come.
            texts = [name for name in columns if name in known and known[name].avro() == "string"]
            distinct = "DISTINCT " + "".join(f"HEX({quoted(name)}), " for name in texts)
        statement = f"SELECT {distinct}{names} FROM {quoted(table)} WHERE {where if one else f'({where})'} IN %s"  # noqa: S608 - names of a checked definition, quoted
        out: list[TableRow] = []
        for start in range(0, len(values), KEYS_AT_ONCE):
            chunk = values[start : start + KEYS_AT_ONCE]
            if most is not None and len(out) >= most:
                break
            limit = "" if most is None else f" LIMIT {most - len(out)}"
            found = self._execute(statement + limit, (tuple(value[0] for value in chunk) if one else tuple(chunk),))
            if distinct:
                found = [row[-len(columns) :] for row in found]
            out += self._read(columns, known, found)
        return out

    @override
    def newest(
        self, table: str, columns: Sequence[str], match: Sequence[str], value: tuple[Any, ...], by: str, limit: int
    ) -> list[TableRow]:
        known = self._typed(table)
        names = ", ".join(selected(name, known.get(name)) for name in columns)
        where = " AND ".join(f"{quoted(name)} = %s" for name in match)
        # Of the table, as a name alone could be that of a value which is selected in another form.
        order = f"{quoted(table)}.{quoted(by)} DESC LIMIT {int(limit)}"
        statement = f"SELECT {names} FROM {quoted(table)} WHERE {where} ORDER BY {order}"  # noqa: S608 - names of a checked definition, quoted
        return self._read(columns, known, self._execute(statement, value))

    def _read(self, columns: Sequence[str], known: dict[str, Column], found: list[tuple[Any, ...]]) -> list[TableRow]:
        """Rows by name, with values as Avro takes them."""
        exact = [_is_wide(known.get(name)) for name in columns]
        if any(exact):
            found = [
                tuple(Decimal(v) if wide and v is not None else v for wide, v in zip(exact, row, strict=True))
                for row in found
            ]
        return [dict(zip(columns, row, strict=True)) for row in found]

    @override
    def keys_after(
        self,
        table: str,
        columns: Sequence[str],
        after: tuple[Any, ...] | None,
        limit: int,
        where: Mapping[str, Any] | None = None,
    ) -> list[tuple[Any, ...]]:
        """An index of `where` and `columns` serves a page; InnoDB's own end with the primary key.

        What comes after the primary key decides nothing, but servers would sort by it.
        """
        known = self._typed(table)
        names = ", ".join(selected(name, known.get(name)) for name in columns)
        deciding = columns[:1] if list(columns[:1]) == self._primary.get(table) else columns
        # An ENUM sorts by its number and compares with texts as one: both as texts.
        orders = [_comparable(name, known.get(name)) for name in deciding]
        order = ", ".join(orders)
        low, arguments = _above(orders, after)
        conditions = [*(f"{quoted(name)} = %s" for name in where or ()), *low]
        rows = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        statement = f"SELECT DISTINCT {names} FROM {quoted(table)}{rows} ORDER BY {order} LIMIT {int(limit)}"  # noqa: S608 - names of a checked definition, quoted
        return [tuple(row) for row in self._execute(statement, (*(where or {}).values(), *arguments))]

    @override
    def folded(self, table: str, match: Sequence[str], values: RowKeys) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """Asks the server for the weights of texts, where the collation is not one of bytes."""
        known = self._typed(table)
        texts = [number for number, name in enumerate(match) if name in known and known[name].avro() == "string"]
        if not texts or not values:
            return {}
        folded_values = [list(value) for value in values]
        for number in texts:
            weights = self._weights(*self._collations[table, match[number]], {value[number] for value in values})
            for value in folded_values:
                value[number] = weights[value[number]]
        return dict(zip(values, map(tuple, folded_values), strict=True))

    def _weights(self, charset: str, collation: str, texts: set[Any]) -> dict[Any, Any]:
        """Text → what all texts share that the collation holds equal."""
        blanks = keeps_blanks(collation)
        bare = {text: text if blanks or not isinstance(text, str) else text.rstrip(" ") for text in texts}
        if not collation or collation.endswith("_bin"):
            return bare
        different = sorted({text for text in bare.values() if isinstance(text, str)})
        one = f"HEX(WEIGHT_STRING(CONVERT(%s USING {charset}) COLLATE {collation}))"
        weights: dict[str, Any] = {}
        for start in range(0, len(different), KEYS_AT_ONCE):
            some = different[start : start + KEYS_AT_ONCE]
            (row,) = self._execute("SELECT " + ", ".join([one] * len(some)), tuple(some))
            weights.update(zip(some, row, strict=True))
        return {text: weights.get(short, short) for text, short in bare.items()}

    @override
    def forget(self) -> None:
        self._known.clear()

    def bounds(self, table: str, column: str) -> tuple[int, int] | None:
        """The least and the greatest value of an integer column that leads an index; None for an empty table."""
        name = quoted(column)
        ((low, high),) = self._execute(f"SELECT MIN({name}), MAX({name}) FROM {quoted(table)}")  # noqa: S608 - names of a checked definition, quoted
        return None if low is None else (low, high)

    def indexed(self, table: str, columns: Sequence[str]) -> bool:
        """Whether the server could find rows of `table` by an index, given values of `columns`.

        It is asked how it would join the table with itself, so that types and collations are the columns' own.
        """
        same = " AND ".join(f"y.{quoted(name)} = x.{quoted(name)}" for name in columns)
        statement = (
            f"EXPLAIN FORMAT=TRADITIONAL SELECT STRAIGHT_JOIN 1 FROM {quoted(table)} x JOIN {quoted(table)} y ON {same}"  # noqa: S608 - names of a checked definition, quoted
        )
        plan = self._execute(statement)
        # id, select_type, table, on MySQL partitions, type, possible_keys, …
        return any(row[2] == "y" and row[-7 if len(row) == _MYSQL_PLAN else -6] for row in plan)

    def close(self) -> None:
        """Give up the connection; may be called twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(pymysql.err.Error, OSError):
                connection.close()

    @property
    def _at(self) -> tuple[str, int]:
        places = self._server.places
        return places[self._turn % len(places)]

    @property
    def _place(self) -> str:
        return "{}:{}".format(*self._at)

    def _typed(self, table: str) -> dict[str, Column]:
        """As `columns`; a table that is gone has none: the statement will say so."""
        try:
            return self.columns(table)
        except Terminal as error:
            if error.details.get("table"):
                return {}
            raise

    def _execute(self, statement: str, arguments: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._open().cursor(SSCursor) as cursor:
                cursor.execute(statement, arguments)
                return list(cursor.fetchall())
        except (pymysql.err.Error, OSError) as refusal:
            self.close()
            raise self._error(refusal) from refusal

    def _open(self) -> pymysql.connections.Connection[Any]:
        if self._connection is None:
            self._known = {}
            connection = pymysql.connect(
                host=self._at[0],
                port=self._at[1],
                user=self._server.user,
                password=self._server.password.get_secret_value(),
                database=self._database,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=5,
                read_timeout=self._read_s,
                write_timeout=60,
                conv=CONVERSIONS,
                # a snapshot holds at this level only; the server's default may be another
                init_command="SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                **tls_options(self._server),
            )
            with connection.cursor() as cursor:
                cursor.execute("SET time_zone = '+00:00'")
            self._connection = connection
        return self._connection

    def _error(self, refusal: Exception) -> LyrebirdError:
        code = refusal.args[0] if refusal.args else 0
        answer = str(refusal.args[-1]) if refusal.args else repr(refusal)
        if code in _ACCESS_DENIED:
            return Terminal(
                "the source's database refuses the account",
                server=self._place,
                user=self._server.user,
                answer=answer,
                fix="Check user and password in `sources`; it needs SELECT on the tables.",
            )
        if code == _NO_TABLE:
            return NoSuchTable(
                "the source's database does not have a table that a document needs",
                server=self._place,
                database=self._database,
                answer=answer,
                fix="Mend the entry in `documents`, or bring the table back.",
            )
        if code in _GONE or isinstance(refusal, pymysql.err.ProgrammingError):
            return Terminal(
                "the source's database does not have what a document needs",
                server=self._place,
                database=self._database,
                answer=answer,
                fix="Mend the entry in `documents`, or bring the table or column back.",
            )
        return Transient(
            "the source's database does not answer",
            system="mysql",
            server=self._place,
            answer=answer,
            fix="See `lyrebird status`, then `lyrebird up`.",
        )


def _is_wide(column: Column | None) -> bool:
    """Whether Avro carries this integer as a decimal."""
    return column is not None and isinstance(column.avro(), dict) and column.type in ("bigint", "bit")


def _comparable(name: str, column: Column | None) -> str:
    return f"CONCAT({quoted(name)})" if column is not None and column.type in ("enum", "set") else quoted(name)


def _above(columns: Sequence[str], after: tuple[Any, ...] | None) -> tuple[list[str], list[Any]]:
    """A condition that an index of the columns, as SQL, serves: servers read it whole for `(a, b) > (1, 2)`."""
    if after is None:
        return [], []
    parts: list[str] = []
    arguments: list[Any] = []
    for last, name in enumerate(columns):
        same = [f"{each} <=> %s" for each in columns[:last]]
        arguments += after[:last]
        if after[last] is None:
            parts.append(" AND ".join([*same, f"{name} IS NOT NULL"]))
        else:
            parts.append(" AND ".join([*same, f"{name} > %s"]))
            arguments.append(after[last])
    return [f"({' OR '.join(parts)})"], arguments
