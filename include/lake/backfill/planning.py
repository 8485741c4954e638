"""Makes the plan of a backfill from the bucket, and refuses what its source does not cover. Writes nothing."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter
from typing import Final

from include.errors import Terminal, Transient
from include.lake.backfill.configuration import fingerprint, narrowed, zones_of
from include.lake.backfill.live_cuts import GenerationCut, live_cuts, only_life, partitions_of, read_instead
from include.lake.backfill.plan import BackfillPlan, PlannedCut, RawObject
from include.lake.backfill.secor_ranges import archived
from include.lake.backfill.selection import BackfillSelection, span_ms
from include.lake.dates.event_hours import CalendarPeriod
from include.lake.definition import LakeGroup
from include.lake.parsing.definition import ParserContext
from include.lake.protocol.chain import give_up
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.commit_rules import joined_gaps
from include.lake.protocol.cut import Commit
from include.lake.protocol.pointer import ReadersPointer, read_pointer
from include.lake.protocol.read_cuts import read_cuts
from include.lake.protocol.runner import Pause
from include.lake.reading.log_ranges import LogRanges
from include.lake.writing.log_cuts import CutLogics
from include.lake.writing.topic_pipelines import logics_of
from include.store.object_store import ObjectStore

__all__ = ["LakeStore", "NothingCommitted", "make_plan", "missing_offsets"]

_SHOWN: Final = 3


class NothingCommitted(Terminal):
    """No cut has a record of the dates or offsets: there is nothing to make again, and nothing is wrong with that."""


@dataclass(frozen=True)
class LakeStore:
    """Where the lake is: the store, and how long to go on asking it."""

    store: ObjectStore
    pause: Pause = give_up


def make_plan(
    bucket: LakeStore,
    asked: BackfillSelection,
    group: LakeGroup,
    context: ParserContext,
    *,
    raw_prefix: str = "",
    log: LogRanges | None = None,
    topic_id: str = "",
) -> BackfillPlan:
    """The plan of what is asked for in a partition group.

    What an archive misses shows when cuts are compared, as nothing tells how many records it should have.

    Args:
        bucket: the bucket of the lake.
        asked: dates or offsets, the parser's configuration, and the origin of the records.
        group: the partition group, as it is declared.
        context: what parsers are made with.
        raw_prefix: folder of the backup group or of Secor's archive; of no use where records come from Kafka.
        log: of Kafka, where records come from there; None: its offsets are not checked.
        topic_id: the life of the topic; "" where it has only one.

    Raises:
        NothingCommitted: no committed cut has any of it.
        Terminal: the source lacks records that the cuts had, the parser would cut elsewhere, or the life is not clear.
        SettingsError: the request does not fit the group, or nothing of the topic is stored.
    """
    store = bucket.store
    wanted = narrowed(group, asked)
    topic = only_life(store, group.prefix, asked.topic, topic_id)
    pointer = read_pointer(store, topic)
    chosen = _chosen(bucket, topic, pointer, asked, (group, wanted))
    if not chosen:
        raise NothingCommitted(
            "no committed cut has any of it: there is nothing to make again",
            topic=asked.topic,
            asked=asked.what,
            partitions=partitions_of(store, topic, pointer),
            fix="Are days and topic right? `lyrebird lake status` shows what is committed.",
        )
    _check_borders(logics_of(asked.group, wanted, asked.topic, context), chosen)
    raw: TopicKey | None = None
    sources: list[RawObject] = []
    if asked.origin != "kafka":
        raw = TopicKey(raw_prefix, topic.topic, topic.topic_id)
        sources = (_sources if asked.origin == "raw" else _archived)(bucket, raw, chosen)
    elif log is not None:
        _check_log(log, topic, chosen)
    cuts = tuple(_planned(partition, live, read) for partition, live, read in chosen)
    return BackfillPlan(asked, topic, fingerprint(wanted, asked, context), cuts, raw, tuple(sources))


_Chosen = tuple[int, GenerationCut, GenerationCut]
"""Partition, the cut as it was written live, and as it is read."""


def _chosen(
    bucket: LakeStore, topic: TopicKey, pointer: ReadersPointer, asked: BackfillSelection, groups: Sequence[LakeGroup]
) -> list[_Chosen]:
    chosen: list[_Chosen] = []
    if asked.days is not None:
        span = span_ms(asked.days, zones_of(groups, asked))
        for partition in partitions_of(bucket.store, topic, pointer):
            for live, read in _both(bucket, topic, pointer, partition, 0):
                chains = (ChainKey(topic, each.generation, partition) for each in (live, read))
                if any(
                    _has_days(chain, each.commit, asked, span) for chain, each in zip(chains, (live, read), strict=True)
                ):
                    chosen.append((partition, live, read))
        return chosen
    for partition, (first, until) in sorted(asked.offsets.items()):
        pointer.require_kept(topic, partition, first)
        for live, read in _both(bucket, topic, pointer, partition, first):
            if live.commit.first >= until:
                break
            chosen.append((partition, live, read))
    return chosen


def _both(
    bucket: LakeStore, topic: TopicKey, pointer: ReadersPointer, partition: int, since: int
) -> Iterator[tuple[GenerationCut, GenerationCut]]:
    for live in live_cuts(bucket.store, topic, pointer, partition, since, bucket.pause):
        yield live, read_instead(bucket.store, topic, pointer, partition, live, bucket.pause)


def _has_days(chain: ChainKey, commit: Commit, asked: BackfillSelection, span: tuple[int, int]) -> bool:
    assert asked.days is not None  # noqa: S101 - asked for by who calls
    periods = (
        CalendarPeriod.of(chain.parse_data(file.key, commit.first).names) for file in commit.files if file.records
    )
    if any(period is not None and period.day in asked.days for period in periods):
        return True
    if commit.min_ts is None or commit.max_ts is None:
        return commit.quarantined + commit.filtered > 0
    return commit.min_ts < span[1] and commit.max_ts >= span[0]


def _planned(partition: int, live: GenerationCut, read: GenerationCut) -> PlannedCut:
    commit = read.commit
    size = sum(file.bytes for file in commit.files)
    return PlannedCut(partition, commit.first, commit.next, live.generation, read.generation, commit.n_records, size)


def _check_borders(logics: CutLogics, chosen: Iterable[_Chosen]) -> None:
    for partition, live, _ in chosen:
        border = logics.border(partition, live.commit.first)
        if border is not None and border < live.commit.next:
            raise Terminal(
                "a version of the parser begins in the midst of a cut",
                partition=partition,
                cut=f"{live.commit.first}-{live.commit.next}",
                begins=border,
                fix="Name the version that all of it is to have: --version.",
            )


def missing_offsets(commit: Commit, gaps: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Parts of `gaps` ([from, until), any order) that lie in the cut and that the cut itself did not miss."""
    had: list[tuple[int, int]] = []
    for first, until, _ in joined_gaps(commit.first, gaps):
        offset = max(first, commit.first)
        for known in joined_gaps(commit.first, (gap[:2] for gap in commit.gaps)):
            if known.until <= offset or known.first >= min(until, commit.next):
                continue
            if known.first > offset:
                had.append((offset, known.first))
            offset = known.until
        if offset < min(until, commit.next):
            had.append((offset, min(until, commit.next)))
    return had


def _sources(bucket: LakeStore, raw: TopicKey, chosen: Sequence[_Chosen]) -> list[RawObject]:
    """The raw objects of all cuts, by partition and offset; `Terminal` where they do not cover them.

    `Transient` where all that lacks lies behind the end of the raw copy, which live traffic brings further.
    """
    pointer = read_pointer(bucket.store, raw)
    if pointer.live is None:
        raise Terminal(
            "there is no raw copy of this topic",
            topic=raw.topic,
            topic_id=raw.topic_id,
            prefix=raw.prefix,
            fix="Name the backup group that has it: --raw; or take the records from Kafka: --source kafka.",
        )
    sources: list[RawObject] = []
    refused: list[str] = []
    comes = True
    for partition in dict.fromkeys(partition for partition, _, _ in chosen):
        cuts = [live.commit for number, live, _ in chosen if number == partition]
        stored = _stored(bucket, raw, pointer, partition, cuts[0].first, cuts[-1].next)
        uncovered = _uncovered(cuts, stored)
        refused += [f"{partition}: offsets {first} to {until - 1}" for first, until in uncovered]
        comes &= bool(stored) and all(first >= stored[-1].next for first, _ in uncovered)
        for commit in stored:
            after = bisect.bisect_right(cuts, commit.first, key=attrgetter("next"))
            if after < len(cuts) and cuts[after].first < commit.next:
                sources += [RawObject(partition, f.key, f.bytes, f.sha256, f.records) for f in commit.files]
    if refused:
        kind = Transient if comes else Terminal
        raise kind(
            "the raw copy does not have all records of these cuts",
            topic=raw.topic,
            prefix=raw.prefix,
            partitions=refused[:_SHOWN],
            missing=len(refused),
            fix="Wait until the backup has them, leave them out by --offsets, or take them from Kafka: --source kafka.",
        )
    return sources


def _archived(bucket: LakeStore, raw: TopicKey, chosen: Sequence[_Chosen]) -> list[RawObject]:
    """The objects of Secor's archive that may have something of these cuts; `Terminal` where it has nothing."""
    archive = archived(bucket.store, raw.prefix, raw.topic)
    sources = {
        source
        for partition, live, _ in chosen
        for source in archive.sources(partition, live.commit.first, live.commit.next)
    }
    if not sources:
        raise Terminal(
            "Secor's archive has nothing of this",
            topic=raw.topic,
            prefix=raw.prefix,
            partitions=archive.partitions,
            fix="Name its folder as Secor's secor.s3.path has it: --raw.",
        )
    return sorted(sources)


def _stored(
    bucket: LakeStore, raw: TopicKey, pointer: ReadersPointer, partition: int, first: int, until: int
) -> list[Commit]:
    """The raw cuts of [first, until) that readers of the raw copy read."""
    found = (each.commit for each in read_cuts(bucket.store, raw, pointer, partition, first))
    return list(takewhile(lambda commit: commit.first < until, found))


def _uncovered(cuts: Sequence[Commit], stored: Sequence[Commit]) -> list[tuple[int, int]]:
    """The offsets [from, until) of `cuts` that the raw cuts, which follow on each other, do not have."""
    begin = stored[0].first if stored else 0
    end = stored[-1].next if stored else 0
    gaps = [(gap.first, gap.until) for each in stored for gap in each.gaps]
    uncovered: list[tuple[int, int]] = []
    for cut in cuts:
        outside = [(cut.first, min(begin, cut.next)), (max(end, cut.first), cut.next)]
        missing = [(first, until) for first, until in outside if first < until]
        uncovered += missing_offsets(cut, [*gaps, *missing])
    return uncovered


def _check_log(log: LogRanges, topic: TopicKey, chosen: Sequence[_Chosen]) -> None:
    if log.topic_id(topic.topic) != topic.topic_id:
        raise Terminal(
            "Kafka has another topic of this name, or none",
            topic=topic.topic,
            topic_id=topic.topic_id,
            now=log.topic_id(topic.topic) or None,
            fix="Take the records from the raw copy: --source raw.",
        )
    for partition in dict.fromkeys(partition for partition, _, _ in chosen):
        begin, end = log.edges(topic.topic, partition)
        for number, live, _ in chosen:
            cut = live.commit
            outside = [(cut.first, min(begin, cut.next)), (max(end, cut.first), cut.next)]
            missing = missing_offsets(cut, [each for each in outside if each[0] < each[1]])
            if number == partition and missing:
                raise Terminal(
                    "Kafka does not have these records any more",
                    topic=topic.topic,
                    partition=partition,
                    offsets=missing[0],
                    log=(begin, end),
                    fix="Take the records from the raw copy: --source raw.",
                )
