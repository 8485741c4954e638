"""What the core of capture hands to its writer: one group is one Kafka transaction."""

from __future__ import annotations

from dataclasses import dataclass

from include.record.position import SourcePosition
from include.source.state import CaptureState

__all__ = ["Group", "Output"]


@dataclass(frozen=True, slots=True)
class Output:
    """One record to append; `partition` None: by its key."""

    topic: str
    key: bytes
    value: bytes | None
    version: int
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """What one Kafka transaction carries; the resolved record says `position`, `state` and has `version`."""

    outputs: tuple[Output, ...]
    position: SourcePosition
    state: CaptureState
    version: int
    uncovered: tuple[str, ...]
    rows: int
    transactions: int
