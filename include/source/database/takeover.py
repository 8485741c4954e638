"""Tells a person from where the newcomer reads that fenced a capture, and what to do."""

from __future__ import annotations

from typing import Final

from include.clock import Clock
from include.errors import Fenced, LyrebirdError
from include.source.database.connection import asked
from include.source.database.server import AskServer
from include.source.definition import SourceDefinition

__all__ = ["newest_dump", "taken_over"]

_LOOK_EVERY_S: Final = 0.5
_LOOK_S: Final = 5.0
# Our own dump is gone once the server has met its closed end.
_HEARTBEATS_GONE: Final = 4
_NOISE: Final = ("system", "bootstrap")
_WHOSE_ID: Final = "If that is no capture of this source, declare another `server_id`. "
_ONLY_ONE: Final = (
    "Only one capture of a source may run. If the other one is meant to, leave this one stopped: nothing is lost. If "
    "not, stop the other one and start this one again (under Airflow: clear its task): it goes on from the log's end."
)


def newest_dump(ask: AskServer) -> tuple[int, str]:
    """Counts the binlog dumps of this account, and tells from where the newest comes: `host:port`, "" without any.

    An account sees its own connections without any privilege.
    """
    dumps = [(int(row[0]), str(row[2])) for row in ask("SHOW PROCESSLIST") if str(row[4]).startswith("Binlog Dump")]
    return len(dumps), max(dumps)[1] if dumps else ""


def taken_over(error: Fenced, source: SourceDefinition, clock: Clock) -> Fenced:
    """The same, with where the newcomer reads the binlog from, if it does within five seconds, and with what to do.

    May block for so long; asks the server with capture's own account.
    """
    by_server_id = "server" in error.details
    details = {"newest_reader": _newcomer(source, clock), **error.details}
    return Fenced(
        "another replica uses its server id" if by_server_id else "another one writes its topics now",
        fix=f"{_WHOSE_ID if by_server_id else ''}{_ONLY_ONE}",
        **{name: value for name, value in details.items() if value and name not in _NOISE},
    )


def _newcomer(source: SourceDefinition, clock: Clock) -> str:
    began_s = clock.monotonic_s()
    gone_s = min(_LOOK_S, _HEARTBEATS_GONE * source.heartbeat_s)
    newest = ""
    while (passed_s := clock.monotonic_s() - began_s) < _LOOK_S:
        try:
            count, newest = asked(source, newest_dump)
        except LyrebirdError:
            return ""
        if count > 1 or (count and passed_s >= gone_s):
            return newest
        clock.sleep(_LOOK_EVERY_S)
    return newest if source.heartbeat_s * _HEARTBEATS_GONE < _LOOK_S else ""
