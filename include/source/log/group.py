"""What the core of capture hands to its writer: one group is one Kafka transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from include.record.position import SourcePosition
from include.source.state import CaptureState

__all__ = ["Group", "OutgoingRecord"]


class OutgoingRecord(NamedTuple):
    """One record to append; `partition` None: by its key."""

    topic: str
    key: bytes
    value: bytes | None
    version: int
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """What one Kafka transaction carries; the resolved record says `position`, `state` and has `version`.

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
