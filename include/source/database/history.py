"""Finds out that a server's binlog was reset, though its numbers have passed those of capture again.

A reset begins the server's own numbers anew. While they are fewer than capture has, the sets of GTIDs tell
(`Server.require`). Later they say nothing, and all that was written between would be missing from the copy. Then

1. not all transactions of its own that capture has lie before the oldest file, as that says itself,
2. but that file was begun after they were committed,
3. and at capture's place in the server's files no transaction begins that capture has not.

Each can be so without a reset: of a file that was purged, of a statement that ran while files changed, of a place in
another server's files. Whatever is not certain refuses nothing: a reset in the second of the last commit is not seen,
nor one whose files have passed the number of capture's, nor where a new transaction begins at just that byte.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from include.errors import Terminal
from include.record.gtid import Flavour, GtidSet, MariadbGtidSet, MysqlGtidSet, parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.source.database.binlog_files import BinlogFiles, read_files
from include.source.database.purge import ListedBinlogFile
from include.source.database.server import AskServer, Reset, Server, own_of, read_server

__all__ = ["require_history"]

_GTID: Final = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)")
_BEGUN: Final[dict[Flavour, re.Pattern[str]]] = {"mariadb": _GTID, "mysql": re.compile(r"[0-9a-f-]{36}:[^']+")}
_INSIDE: Final = re.compile(r"Query|Table_map|Xid|.*[Rr]ows")
"""Events that never begin a transaction with a GTID, as SHOW BINLOG EVENTS names them; the rest tell nothing."""


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
    before = _before(ask, server, listed[0].name)
    if before is None or before.contains(own):  # type: ignore[arg-type]
        return
    began_us = files.started(listed[0].name)
    if began_us is None or began_us <= position.commit_us or _may_stand(ask, own, position.binlog, listed):
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


def _before(ask: AskServer, server: Server, oldest: str) -> GtidSet | None:
    """Transactions before the oldest file; None where that is not told."""
    if server.flavour == "mysql":
        return parse_gtid_set(str(ask("SELECT @@global.gtid_purged")[0][0] or ""), "mysql")
    last: dict[int, tuple[int, int]] = {}
    try:
        events = ask("SHOW BINLOG EVENTS IN %s LIMIT 3", oldest)
    except Terminal:
        # It cannot be read; a dump by GTID does not need it.
        return None
    for _file, _pos, kind, _server, _end, info in events:
        # Of a domain it has the last of each server that has written in it.
        for domain, server_id, number in _GTID.findall(str(info)) if kind == "Gtid_list" else ():
            last[int(domain)] = max(last.get(int(domain), (0, 0)), (int(server_id), int(number)), key=itemgetter(1))
    return MariadbGtidSet(last)


def _may_stand(ask: AskServer, own: GtidSet, at: BinlogPosition, listed: Sequence[ListedBinlogFile]) -> bool:
    """Whether a transaction may begin there that is not in `own`, or did until it was purged; True without a place."""
    sizes = {file.name: file.size_bytes for file in listed}
    if at.file not in sizes:
        return not at.file or at <= BinlogPosition(listed[0].name, 0)
    if at.pos >= sizes[at.file]:
        return at.pos == sizes[at.file]
    try:
        events = ask("SHOW BINLOG EVENTS IN %s FROM %s LIMIT 1", at.file, at.pos)
    except Terminal:
        return False
    if not events:
        return True
    _file, pos, kind, _server, _end, info = events[0]
    # MySQL 8 goes on to the next one.
    if int(pos) != at.pos or _INSIDE.match(str(kind)):
        return False
    flavour: Flavour = "mysql" if isinstance(own, MysqlGtidSet) else "mariadb"
    begun = _BEGUN[flavour].search(str(info))
    return begun is None or not own.contains(parse_gtid_set(begun[0], flavour))  # type: ignore[arg-type]
