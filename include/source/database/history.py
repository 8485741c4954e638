"""Finds out that a server's binlog was reset, though its numbers have passed those of capture again.

A reset begins the server's own numbers anew. While they are fewer than capture has, the sets of GTIDs tell
(`server.require`). Later they say nothing, and all that was written between would be missing from the copy. Then

1. not all transactions of its own that capture has lie before the oldest file, as that says itself,
2. but that file was begun after they were committed,
3. and capture's place is the beginning of no event in the server's files.

Each can be so without a reset: of a file that was purged, of a statement that ran while files changed, of a place in
another server's files. All three cannot.
"""

from __future__ import annotations

from include.errors import Terminal
from include.record.gtid import GtidSet, MariadbGtidSet, parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.source.database.binlog_files import BinlogFiles, read_files
from include.source.database.server import AskServer, Reset, Server, own_of, read_server

__all__ = ["require_history"]


def require_history(ask: AskServer, position: SourcePosition, files: BinlogFiles, place: str) -> None:
    """Raise `Reset` where what the server numbers is not what capture has under these numbers.

    Where it has fewer numbers, `Server.require` says so.

    Args:
        ask: the server that shall be read.
        position: where capture goes on.
        files: the same server's.
        place: the server's address, for the error.

    Raises:
        Reset: its binlog was reset, or restored.
        Transient: it does not answer.
    """
    server = read_server(ask)
    if not server.gtids or not str(position.gtids) or server.flavour != position.flavour:
        return
    own, listed = own_of(ask, position.gtids), read_files(ask)
    if not (str(own) and listed and server.logged(ask).contains(own)):  # type: ignore[arg-type]
        return
    if _before(ask, server, listed[0].name).contains(own):  # type: ignore[arg-type]
        return
    began_us = files.started(listed[0].name)
    if began_us is None or began_us <= position.commit_us or _is_event(ask, position.binlog):
        return
    raise Reset(
        "the server's binlog was reset since capture was here, and has numbered other transactions alike",
        server=place,
        begun_us=began_us,
        captured=str(position.gtids)[:200],
        captured_until_us=position.commit_us,
        fix="Nothing can be added to what was captured: read everything anew, by `lyrebird capture run --source … "
        "--snapshot --anew`.",
    )


def _before(ask: AskServer, server: Server, oldest: str) -> GtidSet:
    """Transactions before the oldest file."""
    if server.flavour == "mysql":
        return parse_gtid_set(str(ask("SELECT @@global.gtid_purged")[0][0] or ""), "mysql")
    for _file, _pos, kind, _server, _end, info in ask("SHOW BINLOG EVENTS IN %s LIMIT 3", oldest):
        if kind == "Gtid_list":
            return parse_gtid_set(str(info).strip("[]"), "mariadb")
    return MariadbGtidSet()


def _is_event(ask: AskServer, at: BinlogPosition) -> bool:
    """Whether an event begins there, or will; True where capture has no place."""
    try:
        return not at.file or ask("SHOW BINLOG EVENTS IN %s FROM %s LIMIT 1", at.file, at.pos) is not None
    except Terminal:
        return False
