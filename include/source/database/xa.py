"""XA transactions that are prepared on the server and have not ended: a snapshot does not see their rows."""

from __future__ import annotations

from typing import Final

from include.clock import Clock
from include.errors import LyrebirdError, Terminal
from include.source.database.connection import asked
from include.source.database.server import AskServer, read_server
from include.source.definition import SourceDefinition
from include.source.ports import SessionWatcher

__all__ = ["prepared", "wait_until_ended"]

_AGAIN_S: Final = 0.5


def prepared(source: SourceDefinition) -> list[str]:
    """Their names; none where they are logged whole at their commit (before MySQL 5.7 and MariaDB 10.5).

    None, too, where the account may not ask (MySQL: XA_RECOVER_ADMIN): the commit of one then stops the source.
    """
    return asked(source, _prepared)


def _prepared(ask: AskServer) -> list[str]:
    server = read_server(ask)
    if server.version < ((10, 5, 0) if server.flavour == "mariadb" else (5, 7, 0)):
        return []
    if server.flavour == "mysql" and server.version >= (8, 0, 0) and not _may_ask(ask):
        return []
    found = []
    for format_id, length, _, data in ask("XA RECOVER"):
        name = data if isinstance(data, bytes) else str(data).encode("utf-8", "surrogateescape")
        found.append(f"X'{name[:length].hex()}',X'{name[length:].hex()}',{format_id}")
    return found


def _may_ask(ask: AskServer) -> bool:
    grants = " ".join(str(row[0]).upper() for row in ask("SHOW GRANTS"))
    return "XA_RECOVER_ADMIN" in grants or "ALL PRIVILEGES ON *.*" in grants


def wait_until_ended(source: SourceDefinition, clock: Clock, watcher: SessionWatcher) -> bool:
    """Return once none is prepared; False at a stop request. `Terminal` after `prepared_wait_s`, with their names."""
    until_s = clock.monotonic_s() + source.prepared_wait_s
    while names := prepared(source):
        if watcher.stop_requested():
            return False
        if clock.monotonic_s() >= until_s:
            raise _stuck(source, names)
        clock.sleep(_AGAIN_S)
    return True


def _stuck(source: SourceDefinition, names: list[str]) -> LyrebirdError:
    return Terminal(
        "XA transactions are prepared and do not end: a snapshot would lack their rows",
        server=source.place,
        xids=names[:10],
        number=len(names),
        fix="XA COMMIT or XA ROLLBACK them, or raise `prepared_wait_s`; then start again.",
    )
