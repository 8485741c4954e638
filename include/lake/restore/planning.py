"""Makes the plan of a restore from the backup's bucket, and refuses what it does not have. Writes nothing."""

from __future__ import annotations

from include.errors import SettingsError, Terminal
from include.lake.backfill.planning import LakeStore
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.cut import Commit
from include.lake.protocol.pointer import ReadersPointer, read_pointer
from include.lake.protocol.read_cuts import read_cuts, read_partitions
from include.lake.protocol.runner import Runner
from include.lake.restore.plan import RestoreAsked, RestorePlan
from include.log.ports import TopicAdmin

__all__ = ["make_plan"]


def make_plan(
    bucket: LakeStore, admin: TopicAdmin, source: TopicKey, asked: RestoreAsked, partitions: int | None = None
) -> RestorePlan:
    """The plan of what is asked for. `partitions`: how many the topic had, where Kafka does not have it any more.

    Raises `Terminal` where the backup has nothing of it, has a hole or does not reach; `SettingsError` for another
    number of partitions than the topic had.
    """
    runner = Runner(bucket.store, bucket.pause)
    pointer = runner.ask(lambda: read_pointer(bucket.store, source))
    stored = runner.ask(lambda: read_partitions(bucket.store, source, pointer))
    unknown = sorted(asked.offsets.keys() - set(stored))
    if not stored or unknown:
        raise Terminal(
            "the backup has nothing of this",
            topic=source.topic,
            prefix=source.prefix,
            partitions=unknown or None,
            allowed=stored,
            fix="See `lyrebird lake status`.",
        )
    count = _partitions(admin, source, stored, partitions)
    chosen: dict[int, list[Commit]] = {}
    ranges: dict[int, tuple[int, int]] = {}
    for partition in sorted(asked.offsets) or stored:
        cuts = runner.ask(lambda at=partition: _cuts(bucket, source, pointer, at, asked))  # type: ignore[misc]
        if cuts:
            chosen[partition] = cuts
            ranges[partition] = asked.offsets.get(partition, (cuts[0].first, cuts[-1].next))
    if not chosen:
        raise Terminal(
            "the backup has no record of this", topic=source.topic, asked=asked.what, fix="See `lyrebird lake status`."
        )
    commits = [commit for cuts in chosen.values() for commit in cuts]
    files = [file for commit in commits for file in commit.files if file.records]
    lost = [(p, gap.first, gap.until) for p, cuts in chosen.items() for cut in cuts for gap in cut.gaps]
    return RestorePlan(
        asked=asked,
        source=source,
        partitions=count,
        ranges=ranges,
        records=sum(file.records for file in files),
        size_bytes=sum(file.bytes for file in files),
        objects=len(files),
        lost=tuple(lost),
    )


def _cuts(
    bucket: LakeStore, source: TopicKey, pointer: ReadersPointer, partition: int, asked: RestoreAsked
) -> list[Commit]:
    """The cuts from the first to the last one that may have something of it."""
    first, until = asked.offsets.get(partition, (pointer.floor(partition), None))
    pointer.require_kept(source, partition, first)
    commits: list[Commit] = []
    for _, commit in read_cuts(bucket.store, source, pointer, partition, first):
        if until is not None and commit.first >= until:
            break
        commits.append(commit)
    if until is not None and (not commits or commits[-1].next < until):
        raise Terminal(
            "the backup does not reach so far",
            topic=source.topic,
            partition=partition,
            asked=until,
            committed=commits[-1].next if commits else None,
            fix="Store the rest first (DAG `lake_upload`, Flush), or ask for less.",
        )
    span = asked.span_ms
    if span is None:
        return commits
    hits = [at for at, commit in enumerate(commits) if _overlaps(commit, span)]
    return commits[hits[0] : hits[-1] + 1] if hits else []


def _overlaps(commit: Commit, span: tuple[int, int]) -> bool:
    return (
        commit.min_ts is not None and commit.max_ts is not None and commit.min_ts < span[1] and commit.max_ts >= span[0]
    )


def _partitions(admin: TopicAdmin, source: TopicKey, stored: list[int], declared: int | None) -> int:
    """How many the topic has, or had: a backup does not know of those that never had a record."""
    info = admin.describe(source.topic)
    known = info.partitions if info is not None and info.named_id == source.topic_id else None
    least = max(known or 0, stored[-1] + 1)
    number = known if declared is None else declared
    if number is None:
        raise SettingsError(
            "Kafka does not have this topic any more, so how many partitions it had must be told",
            topic=source.topic,
            topic_id=source.topic_id,
            least=least,
            fix="Give --partitions: with another number keys would be in other partitions than before.",
        )
    if number < least or known not in (None, number):
        raise SettingsError(
            "the topic had another number of partitions",
            topic=source.topic,
            got=number,
            allowed=known or f"{least} or more",
            fix="Leave --partitions out, or give the number that it had.",
        )
    return number
