"""Puts an imported state in the place of the one that a join has committed, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from include.errors import Terminal
from include.join.bucket import BucketKey
from include.join.committed import Committed, read_committed
from include.join.config.deployed import DeployedJoin
from include.log import topics
from include.log.ports import LogReader, LogWriter
from include.state.pointer import Pointer

__all__ = ["committed_of", "replace_state"]


def committed_of(join: DeployedJoin, reader: LogReader) -> Committed:
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
    """Commit these pointers in the place of all others; `versions` are those that they were made of.

    The writer has the application's own name: a run of it that goes on is fenced, and ends without another batch.

    Raises:
        Terminal: the join has no state, or it is not at these versions any more.
        Transient: the log does not answer; nothing is changed then, or all is.
    """
    writer = open_writer(f"{join.entry.application}.{join.topic}.0")
    try:
        # Read behind the fence: what is committed now stays as it is.
        before = committed_of(join, reader)
        if before.takeover is not None:
            raise Terminal(
                "the join is becoming another one, bucket by bucket",
                join=join.name,
                fix="Let it run until `lyrebird join status` tells of no change.",
            )
        now = {(stage, bucket): Pointer.from_bytes(each).uid for (stage, bucket), each in before.pointers.items()}
        if now != versions:
            raise Terminal(
                "the join has gone on since the export was made",
                join=join.name,
                fix="Stop it, export again, and import that.",
            )
        name = topics.state(join.topic)
        writer.begin()
        for key, pointer in Committed.of_buckets(pointers):
            writer.append(name, key, pointer, partition=0)
        for key, _ in Committed.of_buckets({each: b"" for each in before.pointers if each not in pointers}):
            writer.append(name, key, None, partition=0)
        before.buckets = buckets
        key, value = before.of_join()
        writer.append(name, key, value, partition=0)
        writer.commit()
    finally:
        writer.close()
