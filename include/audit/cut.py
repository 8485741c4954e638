"""Up to where an audit compares, so that writes may go on meanwhile.

The index's progress document says below which offsets everything is settled in the index. What is read of it, then a
refresh, then a point in time: in this order all below those offsets is visible in the point in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from include.audit.range_count import Window
from include.clock import Clock
from include.errors import SettingsError, Terminal
from include.index.fed import serving
from include.index.generation import IndexName
from include.index.mapping import require_metadata
from include.index.port import IndexInfo, SearchIndex
from include.index.progress import Progress, read_progress
from include.log.ports import LogReader, TopicAdmin

__all__ = ["Cut", "cut"]

_LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Cut:
    """The serving index, the offsets of the topic below which both sides are compared, and what was said then."""

    info: IndexInfo
    window: Window
    progress: Progress

    def behind(self, ends: Mapping[int, int]) -> int:
        """Offsets of the topic above the cut."""
        return sum(max(0, end - self.window.get(partition, 0)) for partition, end in ends.items())


def cut(
    alias: str,
    topic: str,
    application: str,
    *,
    index: SearchIndex,
    admin: TopicAdmin,
    reader: LogReader,
    clock: Clock,
    wait_s: float = 0.0,
) -> Cut:
    """Where `topic` and the index behind `alias` can be compared; `alias` may be a generation's own name.

    With `wait_s` it first waits, at most so long, until the index has acknowledged what is in the topic now.

    Raises:
        Terminal: it cannot be said: no index, nothing indexed yet, or the topic was made anew.
        Transient: a server did not answer.
    """
    info = _index(index, alias)
    require_metadata(info.name, info.mapping)
    found = admin.describe(topic)
    ends = reader.end_offsets(topic) if found is not None and wait_s else {}
    until = clock.monotonic_s() + wait_s
    while True:
        progress = read_progress(index, info, topic)
        if progress is None or not progress.acked:
            raise Terminal(
                "nothing was indexed yet, so there is nothing to compare",
                index=info.name,
                topic=topic,
                fix=f"Start the application {application}.",
            )
        if all(progress.acked.get(p, 0) >= end for p, end in ends.items()) or clock.monotonic_s() >= until:
            break
        clock.sleep(_LOOK_S)
    if found is None or found.topic_id != progress.topic_ids.get(topic):
        raise Terminal(
            "topic is not the one that the index was filled from",
            topic=topic,
            topic_id=found.topic_id if found else None,
            indexed=progress.topic_ids.get(topic),
            cluster=progress.cluster,
            fix="Raise `generation` of the topic in the deployment file, then run `lyrebird index rebuild`. Where the "
            "index is another cluster's, declare one of your own.",
        )
    # Also when the application has just asked for one: what was spoilt by hand since is to be seen.
    index.refresh(info.name)
    return Cut(info, {p: progress.acked.get(p, 0) for p in range(found.partitions)}, progress)


def _index(index: SearchIndex, name: str) -> IndexInfo:
    try:
        generation = IndexName.parse(name)
    except SettingsError:
        return serving(index, name)
    info = index.describe(name)
    if info is None:
        raise Terminal("index does not exist", index=name, fix=f"Run `lyrebird index rebuild {generation.alias}`.")
    return info
