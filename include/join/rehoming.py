"""Puts an imported state in the place of the one that a join has committed, in one transaction.

Nothing is written from it before it was compared with the inputs: `released` tells the join to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from include.errors import Terminal
from include.join.bucket import BucketKey
from include.join.committed import CommittedJoin, read_committed
from include.join.config.deployed import DeployedJoin
from include.log import topics
from include.log.ports import LogReader, LogWriter
from include.state.pointer import BucketPointer

__all__ = ["committed_of", "released", "replace_state", "versions_of"]


def committed_of(join: DeployedJoin, reader: LogReader) -> CommittedJoin:
    """What the join has committed; raises `Terminal` when it never has."""
    committed = read_committed(reader, join.topic)
    if committed is None or not committed.pointers:
        raise Terminal("the join has no state yet", join=join.name, topic=join.topic, fix="Has it ever run?")
    return committed


def replace_state(
    join: DeployedJoin,
    pointers: Mapping[BucketKey, bytes],
    buckets: int,
    versions: Mapping[tuple[str, int], str],
    reader: LogReader,
    open_writer: Callable[[str], LogWriter],
) -> None:
    """Commits these pointers in the place of all others.

    Args:
        join: as deployed.
        pointers: of the new state's buckets.
        buckets: how many each stage has from now on.
        versions: of the buckets that the pointers were made of.
        reader: of the log.
        open_writer: opens a writer by its transactional id.

    Raises:
        Terminal: the join has no state, it is not at these versions any more, or it is becoming another join.
        Transient: the log does not answer; nothing is changed then, or all is.
    """
    with _fenced(join, reader, open_writer) as (writer, before):
        if before.takeover is not None:
            raise Terminal(
                "the join is becoming another one, bucket by bucket",
                join=join.name,
                fix="Let it run until `lyrebird join status` tells of no change.",
            )
        if versions_of(before) != versions:
            raise Terminal(
                "the join has gone on since the export was made",
                join=join.name,
                fix="Stop it, export again, and import that.",
            )
        gone = {each: b"" for each in before.pointers if each not in pointers}
        before.buckets, before.unverified = buckets, True
        name = topics.state(join.topic)
        writer.begin()
        for key, pointer in CommittedJoin.of_buckets(pointers):
            writer.append(name, key, pointer, partition=0)
        for key, _ in CommittedJoin.of_buckets(gone):
            writer.append(name, key, None, partition=0)
        writer.append(name, *before.of_join(), partition=0)
        writer.commit()


def released(
    join: DeployedJoin,
    versions: Mapping[tuple[str, int], str],
    reader: LogReader,
    open_writer: Callable[[str], LogWriter],
) -> None:
    """Let the join go on from an imported state, whose buckets were found to be right at these versions.

    Raises:
        Terminal: it is at others now.
        Transient: the log does not answer.
    """
    with _fenced(join, reader, open_writer) as (writer, committed):
        if versions_of(committed) != versions:
            raise Terminal("another state was imported meanwhile", join=join.name, fix="Verify that one.")
        committed.unverified = False
        writer.begin()
        writer.append(topics.state(join.topic), *committed.of_join(), partition=0)
        writer.commit()


def versions_of(committed: CommittedJoin) -> dict[tuple[str, int], str]:
    """Of each bucket the version that is committed."""
    return {(stage, bucket): BucketPointer.from_bytes(each).uid for (stage, bucket), each in committed.pointers.items()}


@contextmanager
def _fenced(
    join: DeployedJoin, reader: LogReader, open_writer: Callable[[str], LogWriter]
) -> Iterator[tuple[LogWriter, CommittedJoin]]:
    """A writer of the application's own name, and what is committed behind the fence: that stays as it is.

    A run of the application that goes on is fenced, and ends without another batch.
    """
    writer = open_writer(f"{join.entry.application}.{join.topic}.0")
    try:
        yield writer, committed_of(join, reader)
    finally:
        writer.close()
