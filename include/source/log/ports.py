"""Definition of the ports that capture needs of a log that it reaches itself."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from include.log.ports import LogReader, LogWriter, SchemaRegistry, TopicAdmin

__all__ = ["LogPorts"]


@dataclass(frozen=True)
class LogPorts:
    """The ports of log and registry; `writer()` opens (and fences)."""

    writer: Callable[[], LogWriter]
    reader: LogReader
    admin: TopicAdmin
    registry: SchemaRegistry
    finish: Callable[[Collection[tuple[str, int]], bool], None]
    """Fence the writer, and write a transaction's end to these (topic, partition): a commit, or else an abort."""
