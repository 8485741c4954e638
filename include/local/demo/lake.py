"""The lake's share of the demo: what it has stored when the shop has closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Final

from include.clock import Clock
from include.errors import LyrebirdError
from include.local.demo.told import Closing, Told

if TYPE_CHECKING:
    from include.lake.committed import CommittedOffset

__all__ = ["CLOSINGS", "committed", "stored", "told_of"]

_WITHIN_S: Final = 90.0
_LOOK_EVERY_S: Final = 1.0

_Place = tuple[str, str, int]


def committed(clock: Clock) -> Told:
    """The committed offset of each topic-partition of each group, once all that is there now is stored.

    Waits for it, but a minute and a half at most: what is still open then is not good.
    """
    from include.lake.committed import committed_offsets
    from include.lake.definition import declared_groups
    from include.lake.kafka_group import KafkaGroupLog
    from include.lake.worker import store_of
    from include.settings.connections import Kafka, ObjectStore
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    groups = {name: group for name, group in declared_groups(deployment).items() if group.run == "stream"}
    kafka = deployment.one("kafka", Kafka)
    log, store = KafkaGroupLog(kafka.bootstrap, kafka.options), store_of(deployment.one("store", ObjectStore))
    try:
        return stored(lambda: committed_offsets(groups, store, log), clock, _WITHIN_S)
    finally:
        store.close()


CLOSINGS: Final[tuple[Closing, ...]] = (committed,)
"""What the demo's summary says of the lake, one after the other."""


def stored(look: Callable[[], list[CommittedOffset]], clock: Clock, within_s: float) -> Told:
    """Look until all that the first look saw in the log is committed, or `within_s` are over."""
    deadline_s = clock.monotonic_s() + within_s
    wanted: Mapping[_Place, int] | None = None
    found: list[CommittedOffset] = []
    error: LyrebirdError | None = None
    while True:
        try:
            found, error = look(), None
        except LyrebirdError as away:
            error = away
        else:
            if wanted is None:
                wanted = {each[:3]: each.end for each in found}
            if all(each.offset >= wanted.get(each[:3], 0) for each in found):
                break
        if clock.monotonic_s() >= deadline_s:
            break
        clock.sleep(_LOOK_EVERY_S)
    if error is not None:
        return Told((f"the lake cannot be seen: {error}",), {"error": str(error)}, good=False)
    return told_of(found, wanted or {})


def told_of(found: list[CommittedOffset], wanted: Mapping[_Place, int]) -> Told:
    """A line for each topic of a group; good when there is one, and each partition is stored up to `wanted`."""
    lines: list[str] = []
    values: dict[str, dict[str, dict[str, int]]] = {}
    good = bool(found)
    for group, topics in groupby(found, key=lambda each: each.group):
        for topic, partitions in groupby(topics, key=lambda each: each.topic):
            offsets = []
            by_partition = values.setdefault(group, {}).setdefault(topic, {})
            for each in partitions:
                open_ = wanted.get(each[:3], 0) - each.offset
                good = good and open_ <= 0
                by_partition[str(each.partition)] = each.offset
                offsets.append(f"{each.partition}: {each.offset}" + (f" ({open_} open)" if open_ > 0 else ""))
            lines.append(f"lake {group}: {topic} committed up to {', '.join(offsets)}")
    return Told(tuple(lines) or ("lake: no topic was found",), {"committed": values}, good)
