"""Turns a refusal by a server or the network into the error that says how to react to it."""

from __future__ import annotations

from typing import Final

import pymysql

from include.errors import Fenced, LyrebirdError, Terminal, Transient
from include.source.definition import SourceDefinition

__all__ = ["error_of"]

_DENIED: Final = frozenset({1044, 1045, 1698})
_NO_PRIVILEGE: Final = frozenset({1142, 1143, 1227})
_MASTER_FATAL: Final = 1236
_TABLE_CHANGED: Final = 1412
# What pymysql takes for a trouble of the server's, and is one of the statement's: unknown columns and functions, …
_NOT_UNDERSTOOD: Final = frozenset(
    {1054, 1064, 1111, 1220, 1241, 1242, 1253, 1267, 1270, 1271, 1292, 1300}
    | {1305, 1366, 1411, 1525, 1582, 1583, 1584, 1630, 1690, 3854, 3988}
)


def error_of(refusal: BaseException, source: SourceDefinition) -> LyrebirdError:
    """The server's or the network's refusal as the error that says how to react to it."""
    code = refusal.args[0] if refusal.args and isinstance(refusal.args[0], int) else 0
    answer = str(refusal.args[-1]) if refusal.args else repr(refusal)
    server = source.place
    if code in _DENIED:
        return Terminal(
            "the server refuses the account",
            server=server,
            user=source.user,
            fix="Check `user` and `password` of the source (LYREBIRD_MYSQL_USER, LYREBIRD_MYSQL_PASSWORD).",
        )
    if code in _NO_PRIVILEGE:
        return Terminal(
            "the account lacks a privilege",
            server=server,
            user=source.user,
            answer=answer,
            fix="GRANT REPLICATION SLAVE, BINLOG MONITOR (MySQL: REPLICATION CLIENT), SELECT ON *.* to it.",
        )
    if "same server_uuid/server_id" in answer:
        return Fenced(
            "another replica with this server id has taken over the dump",
            server=server,
            fix="Is it another capture of this source? If not, declare another `server_id`.",
        )
    if code == _MASTER_FATAL:
        return Terminal(
            "the server cannot go on from capture's position",
            server=server,
            answer=answer,
            fix="Read everything anew: `lyrebird capture run --source … --snapshot --anew`.",
        )
    if code == _TABLE_CHANGED:
        return Transient(
            "a table was altered while its snapshot was read", system="mysql", server=server, answer=answer
        )
    if isinstance(refusal, pymysql.err.ProgrammingError) or code in _NOT_UNDERSTOOD:
        return Terminal(
            "the server refuses a statement",
            server=server,
            answer=answer,
            code=code,
            fix="`lyrebird capture check` tells what the account and the server lack.",
        )
    return Transient(
        "the server does not answer",
        system="mysql",
        server=server,
        answer=answer,
        fix="Is it up? See `lyrebird status`.",
    )
