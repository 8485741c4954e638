"""Chooses the server to read from, by GTID: the source's own, or one of its fallbacks.

It is the first that answers and has all that capture has. One that lacks transactions is a replica that is behind, and
is waited for; one that has others under the same numbers refuses the dump itself (MariaDB's strict mode).
"""

from __future__ import annotations

import logging
from dataclasses import replace

from include.errors import Terminal, Transient
from include.record.position import BinlogPosition, SourcePosition
from include.source.database.connection import asked
from include.source.database.server import AskServer, MissingTransactions, Reset, Server, read_server
from include.source.definition import SourceDefinition

__all__ = ["chosen", "places", "there"]

log = logging.getLogger(__name__)


def places(source: SourceDefinition) -> list[SourceDefinition]:
    """The source at each of its addresses, in the declared order."""
    found = [source]
    for place in source.fallbacks:
        host, _, port = place.rpartition(":")
        found.append(source.model_copy(update={"host": host.strip("[]"), "port": int(port)}))
    return found


def chosen(source: SourceDefinition, position: SourcePosition | None) -> SourceDefinition:
    """The first place that can go on from `position`.

    Raises `Transient` when none can yet (`MissingTransactions` when all are), `Terminal` when one can never: it
    refuses the account, is of another family, or has no GTIDs; `Reset` when all have lost what capture has.
    """
    candidates = places(source)
    if len(candidates) == 1:
        return source
    refusals: list[Transient] = []
    reset: Reset | None = None
    for candidate in candidates:
        try:
            asked(candidate, lambda ask, at=candidate: _fits(ask, at, position))  # type: ignore[misc]
        except Transient as refusal:
            log.warning("%s cannot be captured now: %s", candidate.place, refusal)
            refusals.append(refusal)
        except Reset as refusal:
            log.warning("%s cannot be captured any more: %s", candidate.place, refusal)
            reset = reset or refusal
        else:
            return candidate
    if reset is not None and not refusals:
        raise reset
    if all(isinstance(refusal, MissingTransactions) for refusal in refusals):
        raise refusals[0]
    raise Transient(
        "no server of the source can go on from capture's position",
        system="mysql",
        servers=[candidate.place for candidate in candidates],
        reasons=[refusal.message for refusal in refusals],
    )


def _fits(ask: AskServer, source: SourceDefinition, position: SourcePosition | None) -> None:
    server = read_server(ask)
    if not server.gtids:
        raise Terminal(
            "a source with fallbacks needs GTIDs on each of its servers",
            server=source.place,
            fix="Turn gtid_mode on, or remove `fallbacks`.",
        )
    if position is None:
        return
    if server.flavour != position.flavour:
        raise Terminal(
            "the server is of another family than the one that was captured",
            server=source.place,
            found=server.text,
            fix="Correct `fallbacks`.",
        )
    server.require(ask, position.gtids, source.place)


def there(ask: AskServer, server: Server, position: SourcePosition) -> SourcePosition:
    """`position` with a place in this server's own files, where those of another server it was made on say nothing.

    A file and byte that this server has not written yet cannot be its own.
    """
    rows = ask(server.binlog_status)
    if not server.gtids or not str(position.gtids) or not rows:
        return position
    end = BinlogPosition(str(rows[0][0]), int(rows[0][1]))
    if _base(end) == _base(position.binlog) and position.binlog <= end:
        return position
    return replace(position, binlog=BinlogPosition(end.file, 4))


def _base(at: BinlogPosition) -> str:
    return at.file.rpartition(".")[0]
