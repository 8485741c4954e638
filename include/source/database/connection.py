"""Connections to the server: SQL for questions and snapshots, and the dump of its binlog.

Protocol: https://mariadb.com/kb/en/com_binlog_dump/ and facts of the servers themselves. The handshake is pymysql's;
after the dump command the socket is ours (`binlog.Packets`).
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import pymysql
from pymysql.connections import Connection
from pymysql.constants import COMMAND
from pymysql.cursors import Cursor

from include.errors import LyrebirdError, SettingsError, Terminal, Transient
from include.record.gtid import MysqlGtidSet
from include.record.position import SourcePosition
from include.source.database.server import AskServer, Server, read_server
from include.source.definition import SourceDefinition
from include.source.server_errors import error_of

__all__ = ["Dump", "QueryConnection", "asked", "connect", "dump", "query", "server_of"]

T = TypeVar("T")

_BY_GTID = 4
# MariaDB sends statements' texts to those alone who ask for them; MySQL to all, where it logs them.
_WITH_TEXTS = 2
# Whatever a server or its init_connect sets for all: no SELECT is cut short, padded, or ended by a limit of time, and a
# key that MySQL made by itself is among the columns. What stands in comments is known to one family alone, and to it
# from these versions on.
_SESSION = (
    "SET time_zone = '+00:00', sql_mode = '', sql_select_limit = 18446744073709551615"
    " /*!50708 , max_execution_time = 0 */ /*M!100101 , max_statement_time = 0 */"
    " /*!80030 , show_gipk_in_create_table_and_information_schema = ON */"
)
# What pymysql raises where bytes are not what its protocol says.
_GARBAGE = (ValueError, IndexError, struct.error, AssertionError, TypeError, OverflowError, MemoryError)


class _Connection(Connection):
    """Pymysql's, without its reading all the host's certificates anew for each connection that verifies none."""

    def _create_ssl_ctx(self, options: Any) -> ssl.SSLContext:
        return _unverified() if options == {} else super()._create_ssl_ctx(options)  # type: ignore[misc]


@cache
def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def connect(source: SourceDefinition, read_timeout_s: float = 60) -> Connection[Cursor]:
    """A connection in UTC and utf8mb4; raises `Terminal` for a refused account, `Transient` for no answer.

    Every wait for the server's next bytes ends after `read_timeout_s`, during the handshake after 10 s.
    """
    try:
        connection: Connection[Cursor] = _Connection(
            host=source.host,
            port=source.port,
            user=source.user,
            password=source.password.get_secret_value(),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=5,
            read_timeout=10,
            init_command=_SESSION,
            **_tls(source),
        )
    except pymysql.err.MySQLError as refusal:
        cause = getattr(refusal, "original_exception", None)
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise Terminal(
                "the server's certificate is not good for its address",
                server=source.place,
                cause=cause.verify_message,
                fix="Correct `tls_ca`, `host` or the certificate; or let `tls` be required, which verifies nothing.",
            ) from refusal
        raise error_of(refusal, source) from refusal
    except _GARBAGE as refusal:
        raise Transient(
            "what answers there does not speak MySQL's protocol",
            system="mysql",
            server=source.place,
            answer=repr(refusal)[:200],
            fix="Check `host` and `port` of the source.",
        ) from refusal
    connection._read_timeout = read_timeout_s  # type: ignore[attr-defined]  # noqa: SLF001 - has no setter
    return connection


def _tls(source: SourceDefinition) -> dict[str, Any]:
    """Pymysql's options; by default it takes TLS where the server has it, and asks for no certificate."""
    if source.tls == "off":
        return {"ssl_disabled": True}
    if source.tls == "preferred":
        return {}
    if source.tls == "required":
        return {"ssl": _unverified()}
    try:
        context = ssl.create_default_context(cafile=source.tls_ca or None)
    except OSError as missing:
        raise SettingsError(
            "`tls_ca` cannot be read", path="tls_ca", file=source.tls_ca, cause=str(missing), fix="Correct it."
        ) from missing
    return {"ssl": context}


def query(connection: Connection[Cursor], source: SourceDefinition, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """All rows of one statement, errors as ours."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())
    except pymysql.err.MySQLError as refusal:
        raise error_of(refusal, source) from refusal
    except _GARBAGE as refusal:
        raise Transient(
            "the server's answer is not understood",
            system="mysql",
            server=source.place,
            answer=repr(refusal)[:200],
            fix="Is there a proxy, or something else than a database, at that place?",
        ) from refusal


def server_of(source: SourceDefinition) -> Server:
    """What kind of server answers there; raises as `connect` does."""
    return asked(source, read_server)


def asked(source: SourceDefinition, question: Callable[[AskServer], T]) -> T:
    """The answer to `question` on a connection of its own; raises as `connect` does."""
    connection = connect(source)
    try:
        return question(lambda sql, *values: query(connection, source, sql, *values))
    finally:
        connection.close()


class QueryConnection:
    """One connection for many questions, made at the first, and anew after the server has hung up.

    Not for several threads. A question may be put twice, so that it only reads.
    """

    def __init__(self, source: SourceDefinition) -> None:
        self._source = source
        self._connection: Connection[Cursor] | None = None

    def __call__(self, question: Callable[[AskServer], T]) -> T:
        """The answer; raises as `connect` does."""
        if self._connection is not None:
            try:
                return question(self._ask)
            except Transient:
                # It may be that it had nothing to do for so long.
                self.close()
        try:
            return question(self._ask)
        except Transient:
            self.close()
            raise

    def close(self) -> None:
        """Hang up; may be called twice."""
        if self._connection is not None:
            self._connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001 - it may be broken
            self._connection = None

    def _ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        if self._connection is None:
            self._connection = connect(self._source)
        return query(self._connection, self._source, sql, *values)


class Dump:
    """A running dump: bytes of packets, nothing else is ever said on this connection."""

    def __init__(self, connection: Connection[Cursor]) -> None:
        self._connection = connection
        # The dump goes on where the handshake ended, possibly inside TLS.
        self._socket: socket.socket = connection._sock  # type: ignore[attr-defined]  # noqa: SLF001

    def recv(self, size: int) -> bytes:
        """As a socket's: blocks up to the timeout, then raises `TimeoutError`; b"" at the end."""
        return self._socket.recv(size)

    def settimeout(self, seconds: float | None) -> None:
        """As a socket's."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """Hang up; may be called twice."""
        self._connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001 - a QUIT would not be read


def dump(source: SourceDefinition, replica_id: int, position: SourcePosition) -> Dump:
    """Ask for the binlog after `position`: by GTIDs where it has them, else by file and byte. Packets of events follow.

    Statements' texts come where `source.queries` asks for them, from MySQL in any case.
    A second dump under the same replica id ends the first one with error 1236. May block while connecting.
    """
    connection = connect(source)

    def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return query(connection, source, sql, *values)

    try:
        server = read_server(ask)
        by_gtid = server.gtids and (str(position.gtids) != "" or not position.binlog.file)
        if by_gtid and not str(position.gtids):
            _refuse_purged_start(ask, source)
        if by_gtid:
            server.require(ask, position.gtids, source.place)
        period = round(source.heartbeat_s * 1e9)
        for setting in (
            "@master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum",
            f"@master_heartbeat_period = {period}, @source_heartbeat_period = {period}",
            # A long snapshot keeps us from reading for minutes; the server must not give us up meanwhile.
            "SESSION net_write_timeout = 3600",
        ):
            ask(f"SET {setting}")
        if server.flavour == "mariadb":
            ask("SET @mariadb_slave_capability = 4, @slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0")
            if by_gtid:
                ask("SET @slave_connect_state = %s", str(position.gtids))
        flags = _WITH_TEXTS if source.queries and server.flavour == "mariadb" else 0
        command, body = COMMAND.COM_BINLOG_DUMP, struct.pack("<IHI", 4, flags, replica_id)
        if by_gtid and isinstance(position.gtids, MysqlGtidSet):
            command, encoded = COMMAND.COM_BINLOG_DUMP_GTID, position.gtids.encode()
            body = struct.pack("<HIIQI", _BY_GTID, replica_id, 0, 4, len(encoded)) + encoded
        elif not by_gtid:
            at = position.binlog
            body = struct.pack("<IHI", at.pos, flags, replica_id) + at.file.encode()
        connection._execute_command(command, body)  # type: ignore[attr-defined]  # noqa: SLF001
    except pymysql.err.MySQLError as refusal:
        connection.close()
        raise error_of(refusal, source) from refusal
    except LyrebirdError:
        connection.close()
        raise
    return Dump(connection)


def _refuse_purged_start(ask: AskServer, source: SourceDefinition) -> None:
    """Reading from the very beginning is right only while the first binlog file is there."""
    first = str(ask("SHOW BINARY LOGS")[0][0])
    if not first.endswith(".000001"):
        raise Terminal(
            "the binlog from which capture has to go on was purged",
            server=source.place,
            first=first,
            fix="Read everything anew: `lyrebird capture run --source … --snapshot --anew`.",
        )
