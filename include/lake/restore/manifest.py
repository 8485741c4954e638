"""A restore that has begun: its target topic, and the plan that is kept for it.

A restore begins in this order, and begins again at 1 after a crash:
 1. make the target topic, unless it is there
 2. keep the plan for this topic (by its id), unless one is kept
and only then writes records. Where a plan is kept the topic is that restore's own, which goes on with it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from include.errors import Terminal
from include.lake.backfill.planning import LakeStore
from include.lake.protocol.runner import Runner
from include.lake.restore.plan import RestorePlan
from include.log.ports import LogReader, TopicAdmin, TopicInfo, TopicSpec
from include.log.topics import LARGEST_STORED

__all__ = ["KEEPS_ALL", "Restore", "begin", "check_target", "folder_of"]

_LONGEST: Final = str((1 << 63) - 1)
KEEPS_ALL: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": LARGEST_STORED,
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _LONGEST,
    "message.timestamp.after.max.ms": _LONGEST,
}
"""Of a target: it takes old records, and keeps them until somebody has looked and declares what it is to keep."""


@dataclass(frozen=True)
class Restore:
    """One that has begun. `folder` is that of its map, `name` its transactional id and its consumer group."""

    plan: RestorePlan
    target: TopicInfo
    resumed: bool

    @property
    def folder(self) -> str:
        """Keys of its objects begin so."""
        return folder_of(self.plan, self.target)

    @property
    def name(self) -> str:
        """The same for every attempt at this restore, and no other has it."""
        digest = hashlib.sha256(f"{self.plan.source}\n{self.folder}".encode()).hexdigest()[:12]
        return f"lyrebird.restore.{self.target.name}.{digest}"


def folder_of(plan: RestorePlan, target: TopicInfo) -> str:
    """Where everything that belongs to the restore of a target stands."""
    below = f"_restore/{target.name}~{target.named_id}"
    return f"{plan.source.prefix}/{below}" if plan.source.prefix else below


def check_target(bucket: LakeStore, reader: LogReader, admin: TopicAdmin, plan: RestorePlan) -> Restore | None:
    """The restore of this target that has begun; None when it may begin. Writes nothing.

    Raises `Terminal` for a topic that has records of others, another number of partitions, or another restore.
    """
    info = admin.describe(plan.asked.target)
    if info is None:
        return None
    runner = Runner(bucket.store, bucket.pause)
    key = f"{folder_of(plan, info)}/plan"
    found = runner.ask(lambda: bucket.store.get(key))
    if found is not None:
        kept = RestorePlan.parse(found.body, key)
        if (kept.asked, kept.source) != (plan.asked, plan.source):
            raise Terminal(
                "this topic is the target of another restore",
                topic=info.name,
                asked=f"{kept.asked.what} of {kept.asked.topic}, from {kept.source.prefix}",
                keep_ids=kept.asked.keep_ids,
                fix="Ask for that again to go on with it, or name another target.",
            )
        return Restore(kept, info, resumed=True)
    if info.partitions != plan.partitions:
        raise Terminal(
            "the target has another number of partitions",
            topic=info.name,
            has=info.partitions,
            wanted=plan.partitions,
            fix="Name another target; one that is not there is made.",
        )
    begins, ends = reader.begin_offsets(info.name), reader.end_offsets(info.name)
    used = sorted(partition for partition, end in ends.items() if end != begins[partition])
    if used or reader.unended([info.name]):
        raise Terminal(
            "the target has records already",
            topic=info.name,
            partitions=used[:3],
            fix="Name another target, or delete this one if nobody needs it.",
        )
    return None


def begin(bucket: LakeStore, reader: LogReader, admin: TopicAdmin, plan: RestorePlan) -> Restore:
    """Begin the restore, or go on with it: the plan that it began with holds. Raises as `check_target`."""
    found = check_target(bucket, reader, admin, plan)
    if found is not None:
        return found
    # 1. The topic.
    info = admin.ensure(TopicSpec(plan.asked.target, plan.partitions, KEEPS_ALL))
    # 2. The plan.
    key = f"{folder_of(plan, info)}/plan"
    Runner(bucket.store, bucket.pause).ask(lambda: bucket.store.put_if_absent(key, plan.to_bytes()))
    kept = check_target(bucket, reader, admin, plan)
    if kept is None:
        raise Terminal("the target went while the restore began", topic=info.name, fix="Who deletes topics here?")
    return Restore(kept.plan, kept.target, resumed=False)
