"""Up to where the partitions of groups are stored, and where the log ends: what a person wants to see at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from include.lake.chain import Chain
from include.lake.chain_key import ChainKey, TopicKey
from include.lake.definition import LakeGroup
from include.lake.driver import GroupLog
from include.lake.planner import Spot
from include.lake.pointer import read_pointer
from include.store.object_store import ObjectStore

__all__ = ["CommittedOffset", "committed_offsets"]


class CommittedOffset(NamedTuple):
    """One Kafka partition of a group: each offset below `offset` is settled, the log's last stable one is `end`.

    `generation`: the one that is written; None where the group has not begun with the topic.
    """

    group: str
    topic: str
    partition: int
    generation: int | None
    offset: int
    end: int


def committed_offsets(groups: Mapping[str, LakeGroup], store: ObjectStore, log: GroupLog) -> list[CommittedOffset]:
    """Of all partitions that the log has now, by group, topic and partition; the errors of both as they come."""
    infos = sorted(log.topics(), key=lambda info: info.name)
    found = []
    for name, group in sorted(groups.items()):
        wanted = [info for info in infos if group.wants(info.name)]
        spots = [Spot(info.name, info.named_id, number) for info in wanted for number in range(info.partitions)]
        edges = log.edges(spots)
        for info in wanted:
            topic = TopicKey(group.prefix, info.name, info.named_id)
            live = read_pointer(store, topic).live
            for number in range(info.partitions):
                end = edges.get(Spot(info.name, info.named_id, number), (0, 0))[1]
                offset, generation = 0, None
                if live is not None:
                    generation = live.generation
                    chain = ChainKey(topic, generation, number)
                    offset = Chain(store, chain, start=live.start(number) or 0).head().next
                found.append(CommittedOffset(name, info.name, number, generation, offset, end))
    return found
