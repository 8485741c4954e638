"""What capture keeps in its resolved records for a restart, beside the position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from include.errors import Terminal

__all__ = ["CaptureState", "Job"]

SnapshotState = Literal["running", "done"]


@dataclass(frozen=True, slots=True)
class Job:
    """A snapshot that is owed: a request of that id, or (`gap`) capture's own over a gap; `tables` in full names."""

    id: str
    tables: tuple[str, ...]
    gap: bool


@dataclass(frozen=True, slots=True)
class CaptureState:
    """The state after a group.

    `version` is the last number given out; `tables` the captured tables with the schema id of their key (0: none yet);
    `jobs` snapshots owed, oldest first; `requests_next` the next offset of the request topic.
    """

    version: int = 0
    snapshot: SnapshotState = "running"
    tables: Mapping[str, int] = field(default_factory=dict)
    jobs: tuple[Job, ...] = ()
    requests_next: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values for the resolved record."""
        return {
            "version": self.version,
            "snapshot": self.snapshot,
            "tables": dict(self.tables),
            "jobs": [{"id": job.id, "tables": list(job.tables), "gap": job.gap} for job in self.jobs],
            "requests_next": self.requests_next,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CaptureState:
        """Inverse of `to_json`; raises `Terminal` for a record that capture did not write."""
        try:
            return cls(
                value["version"],
                value["snapshot"],
                dict(value["tables"]),
                tuple(Job(job["id"], tuple(job["tables"]), job["gap"]) for job in value["jobs"]),
                value["requests_next"],
            )
        except (KeyError, TypeError) as error:
            raise Terminal("the resolved record holds no state of capture", missing=str(error)) from error

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Tables that wait for the end of a snapshot over a gap."""
        return tuple(sorted({table for job in self.jobs if job.gap for table in job.tables}))

    def with_table(self, table: str, key_id: int) -> CaptureState:
        """With the table known by that key schema."""
        return self if self.tables.get(table) == key_id else replace(self, tables={**self.tables, table: key_id})

    def without_table(self, table: str) -> CaptureState:
        """Without a table that is gone; what was owed for it is owed no more."""
        jobs = (
            replace(job, tables=tuple(t for t in job.tables if t != table)) if job.gap else job for job in self.jobs
        )
        return replace(
            self,
            tables={name: key for name, key in self.tables.items() if name != table},
            jobs=tuple(job for job in jobs if job.tables or not job.gap),
        )

    def with_gap(self, id_: str, tables: Iterable[str]) -> CaptureState:
        """With one more snapshot over a gap owed."""
        return replace(self, jobs=(*self.jobs, Job(id_, tuple(tables), gap=True)))

    def without_job(self, id_: str) -> CaptureState:
        """With that job done."""
        return replace(self, jobs=tuple(job for job in self.jobs if job.id != id_))
