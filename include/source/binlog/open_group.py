"""A group of the binlog that has begun: its steps so far, its savepoints, and what a rollback leaves of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from include.errors import Terminal
from include.record.position import BinlogPosition
from include.source.binlog.gtid_event import Gtid
from include.source.binlog.reader import Event
from include.source.binlog.spill import Spill, SpillMark
from include.source.binlog.step import RowsEvent, SourceStep

__all__ = ["OpenGroup", "SurvivesRollback"]

SurvivesRollback = Callable[[str, str], bool]
"""(database, table) → whether its engine keeps rows that a transaction rolls back."""


class OpenGroup:
    """`begun` says whether its BEGIN has passed, or none is due.

    `thread` is the connection's id and `commit_us` the commit time, None while they are not known. `orphans` are tables
    of which a map went by without rows.
    """

    __slots__ = (
        "_first",
        "_folder",
        "_marks",
        "_memory_bytes",
        "begun",
        "commit_us",
        "gtid",
        "no_effect",
        "orphans",
        "server_id",
        "standalone",
        "steps",
        "thread",
    )

    def __init__(self, gtid: Gtid | None, first: Event, memory_bytes: int, folder: Path) -> None:
        """`first` is the event that it begins with."""
        self.gtid = gtid.text if gtid else ""
        self.standalone = gtid is not None and gtid.standalone
        self.begun = gtid is not None and gtid.begun
        self.no_effect = gtid is not None and gtid.no_effect
        self.commit_us = gtid.commit_us if gtid else None
        self.thread = gtid.thread if gtid else None
        self.server_id = first.server_id
        self._first = first.file, first.log_pos - first.size
        self.steps = Spill(memory_bytes, folder)
        self.orphans: dict[tuple[str, str], None] = {}
        self._marks: dict[str, tuple[SpillMark, int]] = {}
        self._memory_bytes, self._folder = memory_bytes, folder

    @property
    def start(self) -> BinlogPosition:
        """The byte before the group."""
        file, pos = self._first
        return BinlogPosition(file, max(pos, 0))

    def set_savepoint(self, name: str) -> None:
        """SAVEPOINT; an older one of this name is gone."""
        self._marks.pop(name, None)
        self._marks[name] = self.steps.mark(), len(self.orphans)

    def roll_back_to(self, name: str, survives: SurvivesRollback) -> None:
        """ROLLBACK TO: the savepoint stays, later ones are gone. Raises `Terminal` when it was never set."""
        if name not in self._marks:
            raise Terminal(
                "a rollback to a savepoint that was not set",
                gtid=self.gtid,
                savepoint=name,
                file=self.start.file,
                pos=self.start.pos,
                fix="Nothing was skipped: read the tables anew with --snapshot --anew, and report the statements.",
            )
        mark, orphans = self._marks[name]
        self._cut(mark, survives)
        while next(reversed(self._marks)) != name:
            self._marks.popitem()
        while len(self.orphans) > orphans:
            self.orphans.popitem()

    def roll_back(self, survives: SurvivesRollback) -> None:
        """ROLLBACK of all."""
        self._cut(SpillMark(0, 0, 0, 0, None, 0), survives)
        self._marks.clear()
        self.orphans.clear()

    def _cut(self, mark: SpillMark, survives: SurvivesRollback) -> None:
        kept = Spill(self._memory_bytes, self._folder)
        asked: dict[tuple[str, str], bool] = {}
        for step in self.steps.after(mark):
            if _stays(step, survives, asked):
                kept.append(step)
        self.steps.cut(mark)
        for step in kept:
            self.steps.append(step)


def _stays(step: SourceStep, survives: SurvivesRollback, asked: dict[tuple[str, str], bool]) -> bool:
    if not isinstance(step, RowsEvent):
        return True
    name = step.table.database, step.table.table
    if name not in asked:
        asked[name] = survives(*name)
    return asked[name]
