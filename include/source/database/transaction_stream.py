"""The server's transactions after a position, one after another; and what a restart owes to XA transactions.

Rows of a prepared XA transaction stand in the log before its commit. While one waits, a restart reads from before the
oldest again: what the position covers only feeds the builder. So it does from the beginning of a file of more than
4 GiB on a server without GTIDs, as the protocol names bytes of a file in 32 bits.
"""

from __future__ import annotations

import tempfile
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from include.clock import Clock
from include.errors import Transient
from include.record.position import BinlogPosition, SourcePosition
from include.source.binlog.open_group import SurvivesRollback
from include.source.binlog.reader import EventReader, Packets
from include.source.binlog.step import PlainRun
from include.source.binlog.transaction import Heartbeat, SourceTransaction, TransactionBuilder
from include.source.database.connection import dump
from include.source.definition import SourceDefinition
from include.source.state.capture_state import WaitingXa

__all__ = ["BinlogIdle", "TransactionStream"]

# The server stamps whole seconds, at a statement's start: what is committed now may carry a stamp of a second ago.
_STAMP_US: Final = 1_000_000
_FARTHEST: Final = 0xFFFFFFFF
_FIRST: Final = 4


@dataclass(frozen=True, slots=True)
class BinlogIdle:
    """Nothing stands in the binlog after `at`; all that was committed before `until_us` is here."""

    at: BinlogPosition
    until_us: int


class TransactionStream:
    """One dump. Any error makes it useless; `close` it in every case."""

    def __init__(
        self,
        source: SourceDefinition,
        replica_id: int,
        position: SourcePosition,
        waiting: tuple[WaitingXa, ...],
        survives: SurvivesRollback,
        clock: Clock,
    ) -> None:
        """Ask for what follows `position`.

        Args:
            source: the server, and what is captured of it.
            replica_id: the dump's; another dump under the same id is ended.
            position: that capture stands at.
            waiting: the XA transactions that were prepared there, the oldest first.
            survives: whether a table's engine keeps rows that a transaction rolls back.
            clock: measures the server's silence.

        Raises:
            Transient: the server does not answer.
            Terminal: the server does not give what follows.
        """
        self._source, self._position, self._clock = source, position, clock
        start = _nameable(waiting[0].after if waiting else position)
        self._behind = start is not position
        self._dump = dump(source, replica_id, start)
        self._packets = Packets(self._dump, source)
        self._events = EventReader()
        self._builder = TransactionBuilder(
            source.captures,
            survives,
            source.memory_bytes,
            Path(source.spill_folder or tempfile.gettempdir()),
            self._covered,
        )
        self._taken: deque[PlainRun | SourceTransaction] = deque()
        self._prepared: dict[str, str] = {}
        self._ended: set[str] = set()
        self._begun: dict[str, str] = {}
        self._quiet_at: BinlogPosition | None = None
        self._drained_us = 0
        self.heard()

    def heard(self) -> None:
        """The server's silence counts from now: nobody listened to it until now."""
        self._heard_s = self._clock.monotonic_s()

    def close(self) -> None:
        """Hang up; may be called twice."""
        self._dump.close()

    def next(self, timeout_s: float) -> PlainRun | SourceTransaction | BinlogIdle | None:
        """Plain transactions, or what at most one event completes; None, too, when there was none within `timeout_s`.

        Raises `Transient` when the server is silent for too long, and what the packets and events raise.
        """
        item: PlainRun | SourceTransaction | Heartbeat | None
        while not self._taken:
            more = self._packets.pass_to(self._take)
            if self._taken:
                break
            data = None if more else self._packets.take()
            if data is not None:
                self.heard()
                item = self._builder.on_event(self._events.parse(data))
                break
            if not self._packets.fill(timeout_s):
                self._on_silence()
                return None
            self.heard()
        if self._taken:
            item = self._taken.popleft()
        if isinstance(item, Heartbeat):
            return self._idle(item)
        self._quiet_at = None
        return None if item is None or not self._is_new(item) else item

    def _take(self, buffer: bytearray, at: int) -> tuple[int, bool]:
        found, at, more = self._builder.take(self._events, buffer, at, framed=True)
        for run in found:
            # What is read again is looked at one by one.
            self._taken.extend(run.transactions() if self._behind else (run,))
        return at, more

    def _on_silence(self) -> None:
        if self._clock.monotonic_s() - self._heard_s > self._source.silence_s:
            raise Transient("the server has gone silent", system="mysql", server=self._source.place)
        self._drained_us = self._clock.now_us()

    def waiting(self, known: tuple[WaitingXa, ...], position: SourcePosition) -> tuple[WaitingXa, ...]:
        """`known`, less what the last transaction ended, with what it prepared; `position` is the one before it."""
        if not self._ended and not self._begun:
            return known
        kept = tuple(each for each in known if each.xid not in self._ended)
        return kept + tuple(WaitingXa(xid, gtid, position) for xid, gtid in self._begun.items())

    def _idle(self, heartbeat: Heartbeat) -> BinlogIdle | None:
        """Only a second heartbeat at one place says that the server is idle, of the time when nothing more had come.

        MySQL sends a single one when it has passed over what we have, and goes on; and one may have waited for us.
        """
        before, self._quiet_at = self._quiet_at, heartbeat.at
        if before != heartbeat.at or not self._drained_us:
            return None
        return BinlogIdle(heartbeat.at, self._drained_us - _STAMP_US)

    def _is_new(self, transaction: PlainRun | SourceTransaction) -> bool:
        before = self._prepared
        if before or self._builder.prepared:
            self._prepared = {str(each.xid): each.gtid for each in self._builder.prepared}
        if (
            self._behind
            and isinstance(transaction, SourceTransaction)
            and self._covered(transaction.gtid, transaction.end)
        ):
            return False
        if before is not self._prepared or self._ended or self._begun:
            self._ended = before.keys() - self._prepared.keys()
            self._begun = {xid: gtid for xid, gtid in self._prepared.items() if xid not in before}
        return True

    def _covered(self, gtid: str, end: BinlogPosition) -> bool:
        """Whether capture's position has this transaction."""
        if gtid:
            gtids = self._position.gtids
            return gtids.add(gtid) is gtids
        return end <= self._position.binlog


def _nameable(position: SourcePosition) -> SourcePosition:
    """The position, or one before it that a dump can be asked for."""
    if str(position.gtids) or position.binlog.pos <= _FARTHEST:
        return position
    return replace(position, binlog=BinlogPosition(position.binlog.file, _FIRST))
