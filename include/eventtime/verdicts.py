"""Verdicts as records: what a job writes down of partitions without records, and a replay reads again.

Of a source `topic` they stand in `<topic>.<application>.idle`: key `<partition>/<next offset>`, value the time in µs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from include.eventtime.algorithm.watermark import IdleVerdict, TopicPartition
from include.log import topics
from include.log.ports import LogReader

__all__ = ["Verdicts", "recorded", "verdict_record"]

Verdicts = Mapping[TopicPartition, Sequence[IdleVerdict]]
"""Those of each partition, by offset."""


def verdict_record(verdict: IdleVerdict) -> tuple[bytes, bytes]:
    """(key, value) of its record."""
    return b"%d/%d" % (verdict.place[1], verdict.next_offset), b"%d" % verdict.time


def recorded(reader: LogReader, sources: Iterable[str], application: str) -> Verdicts:
    """All that an application has written down of these topics."""
    verdicts: dict[TopicPartition, list[IdleVerdict]] = {}
    for source in sources:
        name = topics.idle(source, application)
        begins = reader.begin_offsets(name)
        for partition, end in reader.end_offsets(name).items():
            for record in reader.read(name, partition, begins[partition], end):
                of, offset = map(int, (record.key or b"").split(b"/"))
                verdict = IdleVerdict((source, of), offset, int(record.value or b""))
                verdicts.setdefault(verdict.place, []).append(verdict)
    return {place: sorted(each, key=lambda verdict: verdict.next_offset) for place, each in verdicts.items()}
