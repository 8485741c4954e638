"""Definition of the state that capture keeps in its resolved records for a restart, beside the position."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from include.errors import Terminal
from include.record.position import BinlogPosition, SourcePosition
from include.source.state.job import Job

__all__ = ["CaptureState", "TableSetAside", "WaitingXa"]

SnapshotState = Literal["running", "done"]


@dataclass(frozen=True, slots=True)
class TableSetAside:
    """The reason why a table was set aside: the transaction whose rows could not be read, and the error in one line."""

    gtid: str
    position: str
    cause: str
    at_us: int


@dataclass(frozen=True, slots=True)
class WaitingXa:
    """An XA transaction that is prepared and has not ended; it was logged, in a group with `gtid`, next `after`."""

    xid: str
    gtid: str
    after: SourcePosition


@dataclass(frozen=True, slots=True)
class CaptureState:
    """The state after a group.

    `version` is the last number given out; `tables` the captured tables with the schema id of their key (0: none yet);
    `jobs` snapshots owed, oldest first; `requests_next` the next offset of the request topic; `aside` the tables whose
    rows are passed over until somebody asks for them again; `orphans` those that may lack changes made by cascade, with
    the first transaction that showed it, until somebody asks for them again; `left_out` those that the policy does not
    let pass any more, from which position on; `waiting` prepared XA transactions, the oldest first; `nameless` tables
    whose maps name no columns, with the server's time (µs) until which it described them as rows were read since their
    last ALTER; `topics` the ids of the topics that tables had when they were last looked at.
    """

    version: int = 0
    snapshot: SnapshotState = "running"
    tables: Mapping[str, int] = field(default_factory=dict)
    jobs: tuple[Job, ...] = ()
    requests_next: int = 0
    aside: Mapping[str, TableSetAside] = field(default_factory=dict)
    orphans: Mapping[str, TableSetAside] = field(default_factory=dict)
    left_out: Mapping[str, TableSetAside] = field(default_factory=dict)
    waiting: tuple[WaitingXa, ...] = ()
    nameless: Mapping[str, int] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values for the resolved record."""
        return {
            "version": self.version,
            "snapshot": self.snapshot,
            "tables": self.tables,
            "jobs": [job.to_json() for job in self.jobs],
            "requests_next": self.requests_next,
            "aside": {table: asdict(aside) for table, aside in self.aside.items()},
            "orphans": {table: asdict(aside) for table, aside in self.orphans.items()},
            "left_out": {table: asdict(aside) for table, aside in self.left_out.items()},
            "waiting": [{"xid": w.xid, "gtid": w.gtid, "after": w.after.to_json()} for w in self.waiting],
            "nameless": self.nameless,
            "topics": self.topics,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CaptureState:
        """Inverse of `to_json`; raises `Terminal` for a record that capture did not write."""
        try:
            return cls(
                value["version"],
                value["snapshot"],
                dict(value["tables"]),
                tuple(map(Job.from_json, value["jobs"])),
                value["requests_next"],
                {table: TableSetAside(**aside) for table, aside in value.get("aside", {}).items()},
                {table: TableSetAside(**orphan) for table, orphan in value.get("orphans", {}).items()},
                {table: TableSetAside(**since) for table, since in value.get("left_out", {}).items()},
                tuple(
                    WaitingXa(each["xid"], each["gtid"], SourcePosition.from_json(each["after"]))
                    for each in value.get("waiting", ())
                ),
                dict(value.get("nameless", {})),
                dict(value.get("topics", {})),
            )
        except (KeyError, TypeError) as error:
            raise Terminal(
                "the resolved record holds no state of capture",
                missing=str(error),
                fix="Was the topic written by hand? Delete the source's topics and snapshot it again.",
            ) from error

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Tables that wait for the end of a first snapshot or one over a gap; set aside, in want of rows, left out."""
        owed = (table for job in self.jobs if job.incomplete for table in job.tables)
        return tuple(sorted({*self.aside, *self.orphans, *self.left_out, *owed}))

    def needed(self, position: SourcePosition) -> BinlogPosition:
        """The position from which a capture that stands at `position` reads the binlog at its next start."""
        oldest = self.waiting[0].after.binlog if self.waiting else position.binlog
        # After a failover the place of a prepared transaction is one of another server's files.
        same = oldest.file.rpartition(".")[0] == position.binlog.file.rpartition(".")[0]
        return min(oldest, position.binlog) if same else position.binlog

    @property
    def captured(self) -> Mapping[str, int]:
        """`tables` without those left out: what can be asked for."""
        return {table: key for table, key in self.tables.items() if table not in self.left_out}

    def with_table(self, table: str, key_id: int) -> CaptureState:
        """With the table known by that key schema."""
        return self if self.tables.get(table) == key_id else replace(self, tables={**self.tables, table: key_id})

    def with_tables(self, tables: Iterable[str]) -> CaptureState:
        """With these tables known too, whose keys have no schema yet."""
        return replace(self, tables={**dict.fromkeys(tables, 0), **self.tables})

    def without_table(self, table: str) -> CaptureState:
        """Without a table that is gone; what was owed for it is owed no more."""
        return replace(
            self,
            tables={name: key for name, key in self.tables.items() if name != table},
            jobs=tuple(job.without(table) for job in self.jobs),
            aside={name: why for name, why in self.aside.items() if name != table},
            orphans={name: why for name, why in self.orphans.items() if name != table},
            left_out={name: why for name, why in self.left_out.items() if name != table},
            topics={name: id_ for name, id_ in self.topics.items() if name != table},
        )

    def with_left_out(self, table: str, since: TableSetAside) -> CaptureState:
        """With the table left out by the policy; nothing is owed for it, and its key's schema stays known."""
        return replace(
            self.without_aside([table]),
            jobs=tuple(job.without(table) for job in self.jobs),
            left_out={**self.left_out, table: since},
        )

    def with_back(self, id_: str, tables: Collection[str]) -> CaptureState:
        """With tables that the policy lets pass again: what changed meanwhile is owed, as a snapshot over the gap."""
        kept = {name: why for name, why in self.left_out.items() if name not in tables}
        return replace(self, left_out=kept).with_gap(id_, tables)

    def with_nameless(self, table: str, until_us: int) -> CaptureState:
        """With rows read as the server described the table at that time."""
        return replace(self, nameless={**self.nameless, table: max(until_us, self.nameless.get(table, 0))})

    def without_nameless(self, table: str) -> CaptureState:
        """With the table altered: none of its rows were read as it is from then on."""
        return replace(self, nameless={name: us for name, us in self.nameless.items() if name != table})

    def with_aside(self, table: str, aside: TableSetAside) -> CaptureState:
        """With the table set aside."""
        return replace(self, aside={**self.aside, table: aside})

    def with_orphan(self, table: str, orphan: TableSetAside) -> CaptureState:
        """With the table known to lack rows, perhaps."""
        return replace(self, orphans={**self.orphans, table: orphan})

    def without_aside(self, tables: Iterable[str]) -> CaptureState:
        """With these tables read again."""
        gone = set(tables)
        return replace(
            self,
            aside={name: why for name, why in self.aside.items() if name not in gone},
            orphans={name: why for name, why in self.orphans.items() if name not in gone},
        )

    def with_gap(self, id_: str, tables: Iterable[str]) -> CaptureState:
        """With a snapshot over a gap owed of each table, of capture's own accord; one that has not begun will do."""
        due = {table for job in self.jobs if job.gap and not job.where and not job.floors for table in job.tables}
        more = tuple(table for table in tables if table not in due)
        return replace(self, jobs=(*self.jobs, Job(id_, more, gap=True))) if more else self

    def job(self, id_: str) -> Job | None:
        """The job of that id, while it is owed."""
        return next((job for job in self.jobs if job.id == id_), None)

    def with_job(self, changed: Job) -> CaptureState:
        """With the job of that id as it is now."""
        return replace(self, jobs=tuple(changed if job.id == changed.id else job for job in self.jobs))

    def without_job(self, id_: str) -> CaptureState:
        """With that job done."""
        return replace(self, jobs=tuple(job for job in self.jobs if job.id != id_))
