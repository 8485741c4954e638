"""Definitions of what a session of capture needs: the log as a port, what goes through it, and a watcher."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from include.log.ports import Record, TopicInfo, TopicSpec
from include.record.position import SourcePosition
from include.source.state.capture_state import CaptureState

__all__ = ["CaptureLog", "Group", "OutgoingRecord", "ResumePoint", "SessionWatcher"]


class OutgoingRecord(NamedTuple):
    """One record to append; `partition` None: by its key."""

    topic: str
    key: bytes
    value: bytes | None
    version: int
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The contents of one Kafka transaction; the resolved record says `position`, `state` and has `version`.

    `ops` counts its `rows` by what happened to them in the source (a changed key is one "u"); `skipped` the row events
    that were passed over, because their table is set aside, by op; `past` rows of the past of system-versioned tables,
    which leave no records; `texts` the statements that changed rows of tables that nobody captures, as text alone.
    """

    outputs: tuple[OutgoingRecord, ...]
    position: SourcePosition
    state: CaptureState
    version: int
    uncovered: tuple[str, ...]
    rows: int
    transactions: int
    ops: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    past: int = 0
    texts: int = 0


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The end of the last committed group: all up to `position` is in the log, and capture was in `state`."""

    position: SourcePosition
    state: CaptureState


class CaptureLog(Protocol):
    """The log as the only capture of a source needs it: its own topics, its tables' topics and their schemas.

    Whoever opened it last may write; older ones get `Fenced`. Between `write` and the end of `commit` readers see
    nothing, and then all. After an error from `open`, `write`, `commit` or `remake` nothing is certain but what the
    next `open` tells: whether a commit happened whose answer was lost is known from its resume point alone. Every call
    may block, and raises `Transient` when the log does not answer. Not for use from several threads, except `topics`.
    """

    def newest(self) -> ResumePoint | None:
        """The resume point of whoever writes now, None before the first commit; fences nobody."""

    def open(self) -> ResumePoint | None:
        """Fence the one before, drop what it had not committed, and tell where it ended; None: nothing was committed.

        May be called again, after an error or `close`. Makes the source's own topics where they are missing. Raises
        `Terminal` for a log that does not tell.
        """

    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        """The id of a schema, the same at every call."""

    def ensure(self, topic: TopicSpec) -> TopicInfo:
        """Make the topic unless it is there; `Terminal` with advice when it has another number of partitions."""

    def ensure_all(self, topics: Iterable[TopicSpec]) -> None:
        """`ensure` for each, asked for together: of thousands of topics, too."""

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Those of `names` that exist, asked for together; from any thread."""

    def begins_anew(self, topic: str) -> None:
        """Another topic has taken this one's name: the next commit says where that ends now."""

    def largest(self, topic: str) -> int:
        """Bytes of the largest record, key and value, that the topic takes now."""

    def remake(self, topic: TopicSpec) -> TopicInfo:
        """Make the topic anew, empty, whatever was in it; only while nothing is written. Not undone by a crash."""

    def write(self, outputs: Sequence[OutgoingRecord]) -> None:
        """A part of the open group, in order."""

    def commit(self, group: Group) -> None:
        """The rest of the open group, and the resolved record that says so, last."""

    def requests(self, since: int) -> tuple[list[Record], int]:
        """Requests from offset `since` on, and the offset after them; without any that is `since`."""

    def closed_requests(self) -> set[str]:
        """Ids of the requests whose last answer says that nothing is left to do."""

    def close(self) -> None:
        """Drop what is not committed, and let go of the log; may be called twice, and before `open`."""


class SessionWatcher:
    """Hears from a session, and may stop it; this one tells nobody and never stops."""

    def stop_requested(self) -> bool:
        """Whether to commit what is complete and end. Cheap: asked often."""
        return False

    def on_commit(self, group: Group, *, caught_up: bool) -> None:
        """A group is in the log."""

    def on_part(self) -> None:
        """A part of a group that is larger than one commit's share went to the log: it is not there yet for readers."""

    def on_snapshot(self, table: str, rows: int, done: int, total: int | None) -> None:
        """So many rows of a table were read, and `done` of about `total` of all the snapshot's tables."""

    def on_snapshot_end(self) -> None:
        """No table is being read any more."""
