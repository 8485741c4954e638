"""What a session of capture stands on: the log, its own topics, and somebody who watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from include.log.ports import LogReader, LogWriter, SchemaRegistry, TopicAdmin, TopicSpec
from include.log.topics import control, policy, source_answers, source_requests, source_resolved
from include.source.group import Group

__all__ = ["LogPorts", "Watcher", "ensure_topics", "transactional_id"]


@dataclass(frozen=True)
class LogPorts:
    """How a session reaches the log; `writer()` opens (and fences)."""

    writer: Callable[[], LogWriter]
    reader: LogReader
    admin: TopicAdmin
    registry: SchemaRegistry


class Watcher:
    """What a session tells others, and hears; this one tells nobody and never stops."""

    def stop_requested(self) -> bool:
        """Whether to commit what is complete and end. Cheap: asked often."""
        return False

    def on_commit(self, group: Group, *, caught_up: bool) -> None:
        """A group is in the log."""

    def on_part(self) -> None:
        """A part of a group that is larger than one commit's share went to the log: it is not there yet for readers."""

    def on_snapshot(self, table: str, rows: int) -> None:
        """So many rows of a table were read."""

    def on_snapshot_end(self) -> None:
        """No table is being read any more."""


def transactional_id(name: str) -> str:
    """The one id under which a source's topics are written."""
    return f"lyrebird.capture.{name}"


def ensure_topics(name: str, admin: TopicAdmin) -> None:
    """Make the source's own topics where they are missing."""
    for topic in (source_resolved(name), control(name), source_requests(name), source_answers(name)):
        admin.ensure(TopicSpec(topic, 1, policy(topic)))
