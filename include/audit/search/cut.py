"""Up to where an audit compares, so that writes may go on meanwhile.

The index's progress document says below which offsets everything is settled in the index. What is read of it, then a
refresh, then a point in time: in this order all below those offsets is visible in the point in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from include.audit.search.bounds import AuditBounds, Window
from include.clock import Clock
from include.errors import NothingToJudge, SettingsError, Terminal
from include.index.generations.active import read_fed, serving_or_none
from include.index.mapping.declared import require_metadata
from include.index.name import IndexName
from include.index.progress.document import IndexProgress, read_progress
from include.index.server.port import IndexInfo, SearchIndex
from include.log.ports import LogReader, TopicAdmin

__all__ = ["AuditCut", "cut"]

_LOOK_S: Final = 0.2
_ANY: Final = 2**63 - 1
"""No version is greater."""


@dataclass(frozen=True, slots=True)
class AuditCut:
    """The serving index, the bounds within which both sides are compared, and what was said then."""

    info: IndexInfo
    bounds: AuditBounds
    progress: IndexProgress

    @property
    def window(self) -> Window:
        """Partition -> offset below which both sides are compared."""
        return self.bounds.window

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
    generation: int = 1,
    keyed: bool = True,
) -> AuditCut:
    """Where `topic` and the index behind `alias` can be compared; `alias` may be a generation's own name.

    Args:
        alias: of the index.
        topic: what fills it.
        application: what writes it.
        index: the server.
        admin: of the log.
        reader: of the log.
        clock: for waiting.
        wait_s: first wait, at most so long, until the index has acknowledged what is in the topic now.
        generation: of the topic, as declared.
        keyed: whether its records have keys.

    Raises:
        NothingToJudge: there is no index yet, or nothing was indexed yet.
        Terminal: it cannot be said: what was there is gone, or the topic was made anew or has lost records.
        Transient: a server did not answer.
    """
    info = _index(index, alias, application)
    require_metadata(info.name, info.mapping)
    description = admin.describe(topic)
    ends = reader.end_offsets(topic) if description is not None and wait_s else {}
    until = clock.monotonic_s() + wait_s
    while True:
        progress = read_progress(index, info, topic)
        if progress is None or not progress.acked:
            if progress is None and index.living_below(info.name, topic, _ANY, 1):
                raise Terminal(
                    "the index has documents, but what it says of its progress is gone",
                    index=info.name,
                    topic=topic,
                    fix=f"Start the application {application}: it reads the topic from its beginning.",
                )
            raise NothingToJudge(
                "nothing was indexed yet, so there is nothing to compare",
                index=info.name,
                topic=topic,
                fix=f"Start the application {application}.",
            )
        if all(progress.acked.get(p, 0) >= end for p, end in ends.items()) or clock.monotonic_s() >= until:
            break
        clock.sleep(_LOOK_S)
    if description is None or description.topic_id != progress.topic_ids.get(topic):
        raise Terminal(
            "topic is not the one that the index was filled from",
            topic=topic,
            topic_id=description.topic_id if description else None,
            indexed=progress.topic_ids.get(topic),
            cluster=progress.cluster,
            fix="Raise `generation` of the topic in the deployment file, then run `lyrebird index rebuild`. Where the "
            "index is another cluster's, declare one of your own.",
        )
    if progress.generation not in (0, generation):
        raise Terminal(
            "the index does not follow the declared generation of the topic yet",
            topic=topic,
            generation=generation,
            indexed=progress.generation,
            fix=f"Start the application {application} again.",
        )
    # Asked for after the progress document: so no record that it speaks of is missing by haste.
    held = reader.end_offsets(topic)
    lost = {p: acked - held.get(p, 0) for p, acked in progress.acked.items() if acked > held.get(p, 0)}
    if lost:
        raise Terminal(
            "the log ends before the records that the index was filled from: it has lost them",
            topic=topic,
            lost={f"partition {p}": count for p, count in sorted(lost.items())},
            fix=f"Set the topic's generation to {generation + 1} in the deployment file and start {application} again.",
        )
    # Also when the application has just asked for one: what was spoilt by hand since is to be seen.
    index.refresh(info.name)
    window = {p: progress.acked.get(p, 0) for p in range(description.partitions)}
    return AuditCut(info, AuditBounds(window, generation, keyed=keyed), progress)


def _index(index: SearchIndex, name: str, application: str) -> IndexInfo:
    try:
        generation = IndexName.parse(name)
    except SettingsError:
        return _serving(index, name, application)
    info = index.describe(name)
    if info is None:
        raise Terminal("index does not exist", index=name, fix=f"Run `lyrebird index rebuild {generation.alias}`.")
    return info


def _serving(index: SearchIndex, alias: str, application: str) -> IndexInfo:
    info = serving_or_none(index, alias)
    if info is not None:
        return info
    if fed := read_fed(index, alias):
        # The first application that made one has noted it.
        raise Terminal(
            "no index serves this alias any more, though some were filled for it",
            alias=alias,
            generations=list(fed),
            fix=f"`lyrebird index status {alias}` tells what is there; `lyrebird index promote {alias} --generation N` "
            f"lets one of those serve; without any, the start of {application} makes it anew.",
        )
    raise NothingToJudge(
        "no index serves this alias yet", alias=alias, fix=f"Start the application {application}, which makes one."
    )
