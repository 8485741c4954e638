"""Reads where the last capture ended: the newest resolved record, and what a new writer of the topic has to know.

A new writer reads it after the older one was fenced: then the topic's end cannot move, and what is committed there is
the truth, whatever a broken connection left in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from include.errors import Terminal
from include.log.ports import LogReader
from include.log.resolved import PartitionEnds, ResolvedRecord, ResolvedView

__all__ = ["Checkpoint", "newest", "read_checkpoint"]

_FIRST_WINDOW: Final = 500


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`last` None: nothing was ever captured. `deltas`: keys of deltas that no full map has replaced yet."""

    last: ResolvedRecord | None
    ends: PartitionEnds
    deltas: tuple[bytes, ...]


def read_checkpoint(reader: LogReader, topic: str) -> Checkpoint:
    """The checkpoint in a resolved topic that exists; reads back from its end to a full map."""
    begin, end = reader.begin_offsets(topic)[0], reader.end_offsets(topic)[0]
    window = _FIRST_WINDOW
    while True:
        start = max(begin, end - window)
        view, deltas, seen = ResolvedView(), list[bytes](), False
        for record in reader.read(topic, 0, start, end):
            seen = True
            found = view.on_record(record.value)
            if found is not None and found.full:
                deltas.clear()
            elif found is not None:
                deltas.append(found.key)
        ends = view.ends()
        if ends is not None:
            return Checkpoint(view.newest, ends, tuple(deltas))
        if start == begin:
            if seen:
                raise Terminal(
                    "the resolved topic has lost its full map",
                    topic=topic,
                    fix="Was it cut by hand? Delete the source's topics and snapshot it again.",
                )
            return Checkpoint(None, {}, ())
        window *= 8


def newest(reader: LogReader, topic: str) -> ResolvedRecord | None:
    """The last resolved record with its whole state; None when there is none yet. Does not need a fence."""
    return read_checkpoint(reader, topic).last
