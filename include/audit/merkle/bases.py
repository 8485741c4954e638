"""Finds the base of the copy's side: a lake table's version that is complete to a position, or a topic as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from include.errors import NothingToJudge, Terminal, Transient
from include.lake.tables.delta_log import DeltaLog
from include.log import topics
from include.log.control import floors_of
from include.log.ports import LogReader
from include.log.publishing.last_mark import newest_of
from include.log.resolved import ResolvedRecord
from include.record.position import SourcePosition
from include.source.hashes.columns import Incomparable

__all__ = ["Base", "floor_of", "lake_base", "newest_resolved", "topic_base"]

_LOOKED_BACK: Final = 500
"""Versions among which the newest label is looked for."""


@dataclass(frozen=True)
class Base:
    """All that any moment has.

    Args:
        position: of the source, that it is complete to.
        ends: partition → offset of the topic below which all is in it.
        floor: version below which no row lives.
        uncovered: tables that it does not speak for.
        version: of the lake table; None: the topic alone is read, from its beginning.
        schema: Arrow's, of that version.
        generation: of the lake table.
    """

    position: SourcePosition
    ends: Mapping[int, int]
    floor: int
    uncovered: tuple[str, ...] = ()
    version: int | None = None
    schema: Any = field(default=None, compare=False)
    generation: int | None = None


def newest_resolved(reader: LogReader, topic: str) -> tuple[ResolvedRecord, dict[tuple[str, int], int]]:
    """Reads a change topic's last resolved position, and the ends of it and of its source's control topic there.

    Raises `Transient` before the first resolved record.
    """
    name = topics.TopicName.parse(topic)
    source, resolved = name.source or "", str(name.resolved)
    view = newest_of(reader, resolved)[0]
    last, ends = view.of(source), view.ends(source)
    if last is None or ends is None:
        raise Transient("capture has resolved nothing yet", system="log", topic=resolved)
    mine = topic, topics.control(source)
    return last, {at: end for at, end in ends.items() if at[0] in mine}


def floor_of(reader: LogReader, topic: str, ends: Mapping[tuple[str, int], int]) -> int:
    """Version below which no row of the topic lives, by the control records below these ends."""
    source = topics.TopicName.parse(topic).source or ""
    control = topics.control(source)
    begins = reader.begin_offsets(control)
    records = (
        record
        for (name, p), end in ends.items()
        if name == control
        for record in reader.read(control, p, min(begins[p], end), end)
    )
    return floors_of(source, records).get(topic, 0)


def topic_base(reader: LogReader, topic: str) -> Base:
    """A topic as it is now; raises `Transient` before the first resolved record."""
    last, ends = newest_resolved(reader, topic)
    mine = {p: end for (name, p), end in ends.items() if name == topic}
    return Base(last.position, mine, floor_of(reader, topic, ends), last.uncovered)


def lake_base(log: DeltaLog, generation: int, topic: str, source: str, *, serves: bool = False) -> Base:
    """The newest version of a generation of a lake table that has a label of this source.

    Args:
        log: of that generation.
        generation: its number.
        topic: that the table is made of.
        source: of the topic.
        serves: readers were sent to that generation, so that it had a version.

    Raises:
        NothingToJudge: it has no version yet.
        Terminal: it has none any more.
        Incomparable: no version has such a label, as far as one looks back.
    """
    state = log.state((source,))
    if state is None and serves:
        raise Terminal(
            "the lake table that readers are sent to is gone",
            topic=topic,
            generation=generation,
            fix=f"Make it anew: `lyrebird table rebuild {topic}`.",
        )
    if state is None:
        raise NothingToJudge(
            "the lake table has no version yet", topic=topic, fix="Is its application running? `lyrebird table status`"
        )
    for version, _, label in log.labels(_LOOKED_BACK):
        if source in label:
            then = state if version == state.version else log.at(version)
            cut = label[source]
            return Base(
                cut.position,
                then.standing.ends,
                then.standing.floor,
                tuple(cut.uncovered),
                version,
                then.schema,
                generation,
            )
    raise Incomparable(
        "no version of the table is complete to a position of its source",
        topic=topic,
        fix="Wait until it has caught up: `lyrebird table status`; or compare the topic: `--against topic`.",
    )
