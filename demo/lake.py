"""The lake's share of the demo: what it has stored when the shop has closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from demo.chain_audit import audited
from demo.part_summary import ClosePart, PartSummary, awaited
from include.clock import Clock

if TYPE_CHECKING:
    from include.lake.inspect.status import GroupStatus, PartitionStatus

__all__ = ["CLOSINGS", "committed", "stored", "told_of"]

_WITHIN_S: Final = 90.0
_LOOK_EVERY_S: Final = 1.0

_Wanted = Mapping[tuple[str, str, int], int]
"""Offset up to which a group's topic and partition are to be stored."""


def committed(clock: Clock) -> PartSummary:
    """The committed offset of each topic-partition of each group, once all that is there now is stored.

    Waits for it, but a minute and a half at most: what is still open then is not good.
    """
    from include.lake.definition import declared_groups
    from include.lake.inspect.status import group_status
    from include.lake.reading.kafka_group import KafkaGroupLog
    from include.settings.connections import Kafka, StoreSettings
    from include.settings.deployment import Deployment
    from include.store.s3 import store_of

    deployment = Deployment.load()
    groups = {name: group for name, group in declared_groups(deployment).items() if group.run == "stream"}
    kafka = deployment.one("kafka", Kafka)
    log, store = KafkaGroupLog(kafka.bootstrap, kafka.options), store_of(deployment.one("store", StoreSettings))

    def look() -> list[GroupStatus]:
        return [group_status(name, group, store, log, clock.now_us() // 1000) for name, group in groups.items()]

    try:
        return stored(look, clock, _WITHIN_S)
    finally:
        store.close()


CLOSINGS: Final[tuple[ClosePart, ...]] = (committed, audited)
"""What the demo's summary says of the lake, one after the other."""


def stored(look: Callable[[], Sequence[GroupStatus]], clock: Clock, within_s: float) -> PartSummary:
    """Look until all that the first whole look saw in the log is committed, or `within_s` are over."""
    wanted: _Wanted = {}

    def told() -> PartSummary:
        nonlocal wanted
        found = look()
        if not wanted and not any(group.troubles for group in found):
            wanted = {(name, each.topic, each.partition): each.end or 0 for name, each in _partitions(found)}
        return told_of(found, wanted)

    return awaited(told, clock, within_s, _LOOK_EVERY_S)


def told_of(found: Sequence[GroupStatus], wanted: _Wanted) -> PartSummary:
    """The topics of each group; good when nothing is in the way and each partition is stored up to `wanted`."""
    lines: list[str] = []
    values: dict[str, dict[str, dict[str, int]]] = {}
    for group in found:
        offsets, texts = _offsets(group, wanted)
        values[group.name] = offsets
        if texts:
            width = max(map(len, texts))
            lines.append(f"lake {group.name}, committed up to (partition: offset)")
            lines += [f"  {topic:{width}}  {text}" for topic, text in texts.items()]
    lines += [f"lake {group.name}: {each.text} {each.fix}" for group in found for each in group.troubles]
    lines += [f"lake {group.name}: no topic was found" for group in found if not values[group.name]]
    reached = {(name, each.topic, each.partition): each.committed or 0 for name, each in _partitions(found)}
    whole = bool(wanted) and all(reached.get(place, 0) >= until for place, until in wanted.items())
    good = whole and all(group.healthy for group in found) and all(values.values())
    return PartSummary(tuple(lines), {"committed": values}, good)


def _offsets(group: GroupStatus, wanted: _Wanted) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """By topic: the committed offset of each partition, and the same as a text."""
    offsets: dict[str, dict[str, int]] = {}
    texts: dict[str, str] = {}
    for topic, partitions in groupby(_partitions([group]), key=lambda each: each[1].topic):
        there = [each for _, each in partitions]
        offsets[topic] = {str(each.partition): each.committed or 0 for each in there}
        texts[topic] = ", ".join(
            f"{each.partition}: {each.committed or 0}{_open(each, wanted.get((group.name, topic, each.partition)))}"
            for each in there
        )
    return offsets, texts


def _partitions(found: Sequence[GroupStatus]) -> list[tuple[str, PartitionStatus]]:
    """With their groups' names; without those of topics that are gone."""
    return [(group.name, each) for group in found for each in group.partitions if each.state != "gone"]


def _open(status: PartitionStatus, until: int | None) -> str:
    waits = (until or 0) - (status.committed or 0)
    if waits > 0:
        return f" ({waits} {status.state})"
    return f" ({status.state}: {status.todo})" if status.todo else ""
