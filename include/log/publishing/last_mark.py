"""Reads what a topic's writer said last in `<topic>.resolved` of what it has committed, as it opens.

A resolved record says it of the batches before it. A batch that no record follows, as it is a part of a far step,
leaves a mark in its own transaction instead: a record without a value, which readers of resolved topics pass over, and
a header that says the same. Marks and records have one order, that of their offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from include.log import topics
from include.log.planning.plan import Partition
from include.log.ports import Headers, LogReader, Record
from include.log.resolved import PartitionEnds, ResolvedRecord, ResolvedView

__all__ = ["MARK", "LastMark", "ends_of", "flat", "mark_of", "newest_of", "partitions_of", "spoken_in"]

MARK: Final = b"part"
_HEADER: Final = "committed"
_WINDOW: Final = 256


@dataclass(frozen=True)
class LastMark:
    """Input offsets that were committed (as `flat` gives them; None: not known), next offsets of the own topics.

    `at_us`: when; 0: not known. `topic_id`: of the topic that was written; '': not known.
    """

    committed: Mapping[str, int] | None
    ends: PartitionEnds
    at_us: int = 0
    topic_id: str = ""


def _tail(reader: LogReader, topic: str) -> list[Record]:
    """The last records of a resolved topic's one partition, back to a full map of each of its sources."""
    begin, end = reader.begin_offsets(topic)[0], reader.end_offsets(topic)[0]
    window = _WINDOW
    while True:
        start = max(begin, end - window)
        records = list(reader.read(topic, 0, start, end))
        view = ResolvedView()
        for record in records:
            view.on_record(record.value)
        if view.ends() is not None or start == begin:
            return records
        window *= 8


def newest_of(reader: LogReader, topic: str) -> tuple[ResolvedView, list[bytes], LastMark | None]:
    """Reads what a resolved topic says, the keys of deltas that no full map replaced, and what its writer said last."""
    view, deltas, spoken = ResolvedView(), dict[bytes, str](), None
    for record in _tail(reader, topic):
        if record.value is None:
            if record.key == MARK:
                spoken = _marked(record)
            continue
        view.on_record(record.value)
        said = ResolvedRecord.parse(record.value)
        if said.full:
            deltas = {key: source for key, source in deltas.items() if source != said.source}
        elif record.key is not None:
            deltas[record.key] = said.source
        spoken = None
    if spoken is None and view.newest is not None:
        spoken = _resolved(topics.TopicName.parse(topic).subject, view.newest, view.ends() or {})
    return view, list(deltas), spoken


def spoken_in(ends: PartitionEnds, topic: str) -> dict[str, Any]:
    """The part of a record's state about the own topics beside `topic`; its own ends the record names itself."""
    answers = topics.answers(topic)
    others = flat({at: end for at, end in ends.items() if at[0] not in (topic, answers)})
    return {"answers": ends.get((answers, 0), 0)} | ({"own": others} if others else {})


def _resolved(topic: str, last: ResolvedRecord, ends: PartitionEnds) -> LastMark:
    beside = {(topics.answers(topic), 0): last.state.get("answers", 0)}
    own = partitions_of(last.state.get("own", {}))
    state = last.state
    ends = {**ends, **beside, **own}
    return LastMark(state.get("committed"), ends, state.get("at_us", 0), state.get("topic_id", ""))


def mark_of(spoken: LastMark) -> Headers:
    """The header of a mark."""
    said = {
        "committed": spoken.committed,
        "ends": flat(spoken.ends),
        "at_us": spoken.at_us,
        "topic_id": spoken.topic_id,
    }
    return ((_HEADER, orjson.dumps(said)),)


def _marked(record: Record) -> LastMark:
    said = orjson.loads(dict(record.headers)[_HEADER] or b"")
    at_us, topic_id = said.get("at_us", record.timestamp_ms * 1000), said.get("topic_id", "")
    return LastMark(said["committed"], partitions_of(said["ends"]), at_us, topic_id)


def ends_of(reader: LogReader, topic: str) -> dict[Partition, int]:
    """Last stable offset of each partition of a topic."""
    return {(topic, p): offset for p, offset in reader.end_offsets(topic).items()}


def flat(offsets: Mapping[Partition, int]) -> dict[str, int]:
    """As the state of a resolved record holds them."""
    return {f"{topic}/{partition}": offset for (topic, partition), offset in offsets.items()}


def partitions_of(offsets: Mapping[str, int]) -> dict[Partition, int]:
    """Inverse of `flat`."""
    parts = ((*text.rpartition("/"), offset) for text, offset in offsets.items())
    return {(topic, int(partition)): offset for topic, _, partition, offset in parts}
