"""Committed offsets of consumer groups of a topic, translated to the topic that it was restored to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from include.errors import SettingsError, Terminal
from include.lake.backfill.planning import LakeStore
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.runner import Runner
from include.lake.restore.copying import PartitionMap, RestoreLog
from include.lake.restore.manifest import Restore
from include.lake.restore.offset_map import new_offset

__all__ = ["OffsetOrigin", "TranslatedOffset", "committed_of", "translate"]

OffsetOrigin = Literal["same", "next", "end", "none", "kept"]
"""same: the record at the old offset; next: that one was not restored, or is none; end: after all that was restored;
none: nothing of the partition was restored; kept: the group had an offset in the target, which is left as it is."""


@dataclass(frozen=True, slots=True)
class TranslatedOffset:
    """Of one group and partition."""

    group: str
    partition: int
    old: int
    new: int
    how: OffsetOrigin


def committed_of(kafka: RestoreLog, source: TopicKey, groups: Iterable[str]) -> dict[str, dict[int, int]]:
    """What each group has committed of the topic; `Terminal` where that topic is gone, `SettingsError` for nothing."""
    names = list(dict.fromkeys(groups))
    if not names:
        return {}
    info = kafka.admin.describe(source.topic)
    if info is None or info.named_id != source.topic_id:
        raise Terminal(
            "Kafka does not have the topic any more, and has forgotten its groups' offsets with it",
            topic=source.topic,
            topic_id=source.topic_id,
            fix="Leave --groups out, and set offsets by the map (`--json`, or the objects that it names).",
        )
    committed = {group: kafka.reader.committed(group, source.topic) for group in names}
    unknown = [group for group, offsets in committed.items() if not offsets]
    if unknown:
        raise SettingsError(
            "groups without committed offsets of this topic",
            topic=source.topic,
            groups=unknown,
            fix="Mend their names, or leave them out.",
        )
    return committed


def translate(
    kafka: RestoreLog,
    bucket: LakeStore,
    restore: Restore,
    maps: Mapping[int, PartitionMap],
    committed: Mapping[str, Mapping[int, int]],
) -> list[TranslatedOffset]:
    """Commit what the groups are to go on from in the target, each group in one stroke. Repeats do no harm."""
    topic = restore.target.name
    told: list[TranslatedOffset] = []
    if not committed:
        return told
    writer = kafka.open_writer(restore.name)
    try:
        for group, offsets in committed.items():
            kept = kafka.reader.committed(group, topic)
            translated = [
                TranslatedOffset(group, partition, old, kept[partition], "kept")
                if partition in kept
                else _one(bucket, restore, maps, group, partition, old)
                for partition, old in sorted(offsets.items())
            ]
            anew = {(topic, each.partition): each.new for each in translated if each.how != "kept"}
            if anew:
                writer.begin()
                writer.commit(group, anew)
            told += translated
    finally:
        writer.close()
    return told


def _one(
    bucket: LakeStore, restore: Restore, maps: Mapping[int, PartitionMap], group: str, partition: int, old: int
) -> TranslatedOffset:
    partition_map = maps.get(partition)
    if partition_map is None:
        return TranslatedOffset(group, partition, old, 0, "none")
    runner = Runner(bucket.store, bucket.pause)
    new = runner.ask(lambda: new_offset(bucket.store, restore.folder, partition_map.parts, old))
    if new is None:
        return TranslatedOffset(group, partition, old, partition_map.until, "end")
    return TranslatedOffset(group, partition, old, new[0], "same" if new[1] else "next")
