"""Asks a server about its binlog files: names and sizes, limits of retention, when it began one."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Final

import pymysql
from pymysql.constants import COMMAND

from include.clock import Clock
from include.errors import Terminal
from include.record.position import BinlogPosition
from include.source.binlog.event_type import EventType
from include.source.binlog.reader import EventReader, Packets
from include.source.database.connection import Dump, asked, connect, query
from include.source.database.purge import ListedBinlogFile, PurgeHorizon, Retention, horizon, lag_bytes
from include.source.database.server import AskServer, Server, read_server
from include.source.definition import SourceDefinition
from include.source.server_errors import error_of

__all__ = ["BinlogFiles", "BinlogLook", "read_files", "read_retention"]

_NON_BLOCKING: Final = 1
_NOBODY: Final = 0
_ANSWER_WITHIN_S: Final = 5.0
_DAY_S: Final = 86_400
_RDS_FOLDER: Final = "/rdsdbbin"
_RDS_HOURS: Final = "SELECT value FROM mysql.rds_configuration WHERE name = 'binlog retention hours'"
_RDS_AT_ONCE: Final = (
    "RDS purges at once, as `binlog retention hours` is not set: CALL mysql.rds_set_configuration"
    "('binlog retention hours', 72)"
)
_RDS_UNKNOWN: Final = (
    "unknown: on RDS its table mysql.rds_configuration rules, which the account may not read: GRANT SELECT on it"
)


@dataclass(frozen=True, slots=True)
class BinlogLook:
    """The server's binlog as seen from a position; `oldest_age_h` None when there is no file or it has no date."""

    lag_bytes: int | None
    horizon: PurgeHorizon
    oldest_age_h: float | None


def read_files(ask: AskServer) -> tuple[ListedBinlogFile, ...]:
    """All files, the oldest first."""
    return tuple(ListedBinlogFile(str(row[0]), int(row[1])) for row in ask("SHOW BINARY LOGS"))


def read_retention(ask: AskServer, server: Server) -> Retention:
    """The limits at which the server purges by itself; each server has some of these variables.

    On Amazon's RDS they say nothing: there a table of its own rules, by which NULL is "at once".
    """

    def of(name: str) -> float | None:
        value = server.variable(ask, name)
        try:
            return None if value is None else float(value)
        except ValueError:
            return None

    seconds, days = of("binlog_expire_logs_seconds"), of("expire_logs_days")
    age_s = seconds or (None if days is None else days * _DAY_S)
    if age_s is None:
        age_s = seconds
    if (server.variable(ask, "binlog_expire_logs_auto_purge") or "").upper() in ("OFF", "0"):
        age_s = 0.0
    retention = Retention(age_s, int(of("max_binlog_total_size") or 0), up_s=_up_s(ask))
    if not (server.variable(ask, "basedir") or "").startswith(_RDS_FOLDER):
        return retention
    try:
        rows = ask(_RDS_HOURS)
    except Terminal:
        # Another account's table, or none: whatever the variables say does not hold here.
        return replace(retention, age_s=None, rule=_RDS_UNKNOWN)
    hours = rows[0][0] if rows else None
    if hours is None:
        return replace(retention, at_once=True, rule=_RDS_AT_ONCE)
    return replace(retention, age_s=float(hours) * 3600, rule="RDS's `binlog retention hours`")


def _up_s(ask: AskServer) -> float | None:
    rows = ask("SHOW GLOBAL STATUS LIKE %s", "Uptime")
    return float(rows[0][1]) if rows else None


def _answers(ask: AskServer) -> tuple[tuple[ListedBinlogFile, ...], Retention]:
    return read_files(ask), read_retention(ask, read_server(ask))


class BinlogFiles:
    """Asks one source's server; remembers when files began, which never changes."""

    def __init__(self, source: SourceDefinition, clock: Clock) -> None:
        self._source, self._clock = source, clock
        self._began: dict[str, int] = {}

    def look(self, position: BinlogPosition, needed: BinlogPosition | None = None) -> BinlogLook:
        """Ask now; the horizon is that of `needed`, where that is older than `position`.

        May block for seconds; raises `Transient`, `Terminal` as `connect` does.
        """
        return self._look(*asked(self._source, _answers), position, needed or position)

    def look_at_end(self) -> BinlogLook:
        """As for a capture that has all; raises as `look` does, and `Terminal` for a server without a binlog."""
        files, retention = asked(self._source, _answers)
        if not files:
            raise Terminal("the server has no binlog", server=self._source.place, fix="Start it with --log-bin.")
        end = BinlogPosition(files[-1].name, files[-1].size_bytes)
        return self._look(files, retention, end, end)

    def _look(
        self,
        files: tuple[ListedBinlogFile, ...],
        retention: Retention,
        position: BinlogPosition,
        needed: BinlogPosition,
    ) -> BinlogLook:
        names = {file.name for file in files}
        self._began = {name: us for name, us in self._began.items() if name in names}
        now_us = self._clock.now_us()
        oldest_us = self.started(files[0].name) if files else None
        return BinlogLook(
            lag_bytes(files, position),
            horizon(files, retention, needed, self.started, now_us),
            None if oldest_us is None else max(0.0, (now_us - oldest_us) / 3.6e9),
        )

    def started(self, file: str) -> int | None:
        """The time when the server began the file, µs UTC: its format description's stamp. None when it has none."""
        began_us = self._began.get(file)
        if began_us is None:
            began_us = self._read_start(file)
            if began_us:
                self._began[file] = began_us
        return began_us or None

    def _read_start(self, file: str) -> int:
        """The file is asked for as by a replica without an id, which ends no other dump, and given up at once."""
        connection = connect(self._source)
        try:
            checksum = "@@global.binlog_checksum"
            query(
                connection,
                self._source,
                f"SET @master_binlog_checksum = {checksum}, @source_binlog_checksum = {checksum}",
            )
            body = struct.pack("<IHI", 4, _NON_BLOCKING, _NOBODY) + file.encode()
            try:
                connection._execute_command(COMMAND.COM_BINLOG_DUMP, body)  # type: ignore[attr-defined]  # noqa: SLF001
            except pymysql.err.MySQLError as refusal:
                raise error_of(refusal, self._source) from refusal
            dump = Dump(connection)
            packets, events = Packets(dump, self._source), EventReader()
            while (data := packets.next(_ANSWER_WITHIN_S)) is not None:
                event = events.parse(data)
                if event.type is EventType.FORMAT_DESCRIPTION:
                    return event.timestamp * 1_000_000
        except Terminal:
            # Purged since it was listed, or not readable from here: its age is not known, nothing rests on it.
            return 0
        finally:
            connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001 - a QUIT would not be read
        return 0
