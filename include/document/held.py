"""What the topics of an assembler hold already, read as it opens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from include.log.plan import Partition
from include.log.ports import LogReader, Record
from include.log.resolved import Resolved, ResolvedView

__all__ = ["all_of", "ends_of", "flat", "newest_of"]

_WINDOW: Final = 256


def _tail(reader: LogReader, topic: str) -> list[Record]:
    """The last records of a resolved topic's one partition, back to a full map at least."""
    begin, end = reader.begin_offsets(topic)[0], reader.end_offsets(topic)[0]
    window = _WINDOW
    while True:
        start = max(begin, end - window)
        records = list(reader.read(topic, 0, start, end))
        full = [n for n, r in enumerate(records) if r.value is not None and Resolved.parse(r.value).full]
        if full or start == begin:
            return records[full[-1] :] if full else records
        window *= 8


def newest_of(reader: LogReader, topic: str) -> tuple[ResolvedView, list[bytes]]:
    """What a resolved topic says, and the keys of its deltas since the last full map."""
    view, deltas = ResolvedView(), list[bytes]()
    for record in _tail(reader, topic):
        view.on_record(record.value)
        if record.value is not None and record.key is not None and not Resolved.parse(record.value).full:
            deltas.append(record.key)
    return view, deltas


def ends_of(reader: LogReader, topic: str) -> dict[Partition, int]:
    """Last stable offset of each partition of a topic."""
    return {(topic, p): offset for p, offset in reader.end_offsets(topic).items()}


def flat(offsets: Mapping[Partition, int]) -> dict[str, int]:
    """As the state of a resolved record holds them."""
    return {f"{topic}/{partition}": offset for (topic, partition), offset in offsets.items()}


def all_of(reader: LogReader, topic: str) -> list[Record]:
    """Every committed record of a small topic."""
    begins, ends = reader.begin_offsets(topic), reader.end_offsets(topic)
    return [record for p, end in sorted(ends.items()) for record in reader.read(topic, p, begins[p], end)]
