"""Advances a topic's progress: pure steps from one progress document to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from include.errors import Terminal
from include.index.definition import IndexTopic
from include.index.feed import PartitionNumber
from include.index.progress.document import IndexProgress, OffsetVector
from include.index.progress.partition_epochs import known_numbers
from include.log.topics import resolved_of

__all__ = [
    "advanced",
    "counted",
    "greatest",
    "grown",
    "of_cluster",
    "resumed",
    "seen_by_searches",
    "start_of",
]


def advanced(progress: IndexProgress, acked: OffsetVector, resolved_acked: OffsetVector) -> IndexProgress:
    """`progress` with vectors that never go back."""
    return replace(
        progress,
        acked=greatest(progress.acked, acked),
        resolved_acked=greatest(progress.resolved_acked, resolved_acked),
    )


def resumed(
    progress: IndexProgress, generation: int, topic_id: str | None, numbers: Sequence[int] = ()
) -> IndexProgress:
    """`progress` to go on from in this generation of the topic, which now has the id `topic_id` (None: not there yet).

    A raised generation begins anew, as the topic was made anew: only what the source said of its tables stays. So do
    `numbers` of partitions that were declared since, where the topic had others afterwards: versions count them
    (`PartitionEpochs`), and all records get theirs once more.

    Raises `Terminal` for a lower generation, and for another topic under the generation that was read so far.
    """
    known = progress.topic_ids.get(progress.topic)
    if progress.generation > generation:
        raise Terminal(
            "topic's generation was lowered",
            topic=progress.topic,
            generation=generation,
            indexed=progress.generation,
            fix=f"Set its generation to {progress.generation} in the deployment file, or higher.",
        )
    if 0 < progress.generation < generation:
        return IndexProgress(progress.topic, generation, floors=progress.floors, cluster=progress.cluster)
    if known is not None and topic_id is not None and known != topic_id:
        raise Terminal(
            "topic was made anew, and its offsets count from the beginning again",
            topic=progress.topic,
            topic_id=topic_id,
            indexed=known,
            fix=f"Set the topic's generation to {generation + 1} in the deployment file, then start again.",
        )
    noted = [each.number for each in progress.partitions]
    if any(number < max(noted, default=0) and number not in noted for number in numbers):
        return IndexProgress(
            progress.topic,
            generation,
            topic_ids=progress.topic_ids,
            floors=progress.floors,
            control_acked=progress.control_acked,
            partitions=known_numbers(numbers, progress.partitions),
            cluster=progress.cluster,
        )
    return replace(progress, generation=generation)


def of_cluster(progress: IndexProgress, cluster: str, topic_id: str | None, declared: IndexTopic) -> IndexProgress:
    """`progress` of a topic in `cluster` (`<name>/<type>`), before it is `resumed`.

    Raises `Terminal` where the index is filled from another cluster's topic of the same name, as two that fill one
    index would take it from each other all the time; and where the cluster of a topic without keys has another name
    than before, as every record would become a second document.
    """
    known = progress.topic_ids.get(progress.topic)
    here = replace(progress, cluster=cluster)
    if progress.cluster in ("", cluster) or known is None or progress.generation < declared.generation:
        return here
    if topic_id is not None and topic_id != known:
        raise Terminal(
            "index is filled from another cluster's topic of this name",
            topic=progress.topic,
            cluster=cluster,
            indexed=progress.cluster,
            fix="Give this cluster's topic an index of its own in section `indexes`; one search can ask both.",
        )
    if declared.key == "none":
        raise Terminal(
            "cluster was renamed, and its name is a part of the ids of records without keys",
            topic=progress.topic,
            cluster=cluster,
            indexed=progress.cluster,
            fix=f"Set `cluster` in the deployment files back to {progress.cluster} (name/type).",
        )
    return here


def grown(progress: IndexProgress, partitions: int, ends: OffsetVector) -> IndexProgress:
    """`progress` that knows that the topic has `partitions` partitions; `ends` are the ends that it has now."""
    known = progress.partitions
    if not partitions or (known and known[-1].number >= partitions):
        return progress
    if not known:
        return replace(progress, partitions=(PartitionNumber(partitions),))
    until = {p: end for p, end in ends.items() if p < known[-1].number}
    return replace(
        progress, partitions=(*known[:-1], PartitionNumber(known[-1].number, until), PartitionNumber(partitions))
    )


def start_of(progress: Mapping[str, IndexProgress]) -> dict[str, OffsetVector]:
    """The offsets to read on from, of each topic and of the resolved topic that speaks of it.

    Topics that share a resolved topic each know it to an offset of their own: the least holds.
    """
    start: dict[str, OffsetVector] = {topic: of.acked for topic, of in progress.items()}
    for topic, of in progress.items():
        name = resolved_of(topic)
        last = start.get(name)
        start[name] = (
            of.resolved_acked
            if last is None
            else {p: min(last[p], n) for p, n in of.resolved_acked.items() if p in last}
        )
    return start


def seen_by_searches(progress: IndexProgress) -> IndexProgress:
    """`progress` after a refresh that began when all below `acked` was written."""
    return replace(progress, searchable=progress.acked, visible=progress.complete)


def counted(progress: IndexProgress, counts: Mapping[int, Mapping[str, int]]) -> IndexProgress:
    """`progress` with what became of further records, for each partition."""
    out = {p: dict(of) for p, of in progress.counts.items()}
    for p, of in counts.items():
        mine = out.setdefault(p, {})
        for name, count in of.items():
            mine[name] = mine.get(name, 0) + count
    return replace(progress, counts=out)


def greatest(one: OffsetVector, other: OffsetVector) -> dict[int, int]:
    """The greater of two numbers for each partition."""
    return {p: max(one.get(p, 0), other.get(p, 0)) for p in {*one, *other}}
