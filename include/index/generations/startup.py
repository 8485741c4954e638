"""Opens the generations that an application feeds: claims their progress, and says where each goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from include.clock import Clock
from include.errors import Terminal
from include.index.batch import Settlement
from include.index.dead_letters import DeadLetters
from include.index.definition import IndexDefinition
from include.index.generations.target import ActiveGeneration
from include.index.progress.document import IndexProgress, ProgressKeeper
from include.index.progress.floors import Floors
from include.index.progress.grown_topics import PartitionCounts, require_no_growth
from include.index.progress.steps import of_cluster, resumed
from include.index.server.port import IndexInfo, SearchIndex
from include.index.states import feed_of
from include.log.ports import LogReader, TopicAdmin
from include.settings.connections import Cluster

__all__ = ["GenerationContext", "TooOld", "opened"]


class TooOld(Terminal):
    """A generation lacks deletions that its topic does not show any more: only a new one knows what is gone.

    It stood still for longer than they are kept, or would begin on a topic that has grown.
    """


@dataclass(frozen=True)
class GenerationContext:
    """What all generations of an index share; `owner` is a name that no other process has."""

    definition: IndexDefinition
    cluster: Cluster
    index: SearchIndex
    admin: TopicAdmin
    reader: LogReader
    owner: str
    clock: Clock
    on_removed: Callable[[int], None]

    def target(self, info: IndexInfo, letters: DeadLetters, known: ActiveGeneration | None = None) -> ActiveGeneration:
        """Claim a generation, which fences whoever wrote it before. May be called again.

        A generation that has seen no growth of a topic takes over what `known` saw. Raises `TooOld`, `Terminal` as
        `resumed`, `Transient`, `Fenced`.
        """
        keepers = {
            topic: ProgressKeeper(self.index, info, topic, self.owner, self.clock) for topic in self.definition.topics
        }
        progress = {topic: self._claimed(info, topic, keeper, known) for topic, keeper in keepers.items()}
        settlement = Settlement(
            info=info,
            index=self.index,
            keepers=keepers,
            progress=progress,
            letters=letters,
            clock=self.clock,
            refresh_s=self.definition.refresh_s,
        )
        return ActiveGeneration(
            settlement,
            self._growth,
            Floors(self.index, info.name, self.reader, self.clock, self.on_removed),
            lambda of: feed_of(self.cluster, self.definition, of.topic, of),
        )

    def begins(self, topic: str) -> Mapping[int, int]:
        """First offsets that the log holds of a topic; none of one that nobody has made yet."""
        try:
            return self.reader.begin_offsets(topic)
        except Terminal:
            return {}

    @property
    def _growth(self) -> PartitionCounts:
        return PartitionCounts(self.definition, self.admin, self.reader)

    def _claimed(
        self, info: IndexInfo, topic: str, keeper: ProgressKeeper, known: ActiveGeneration | None
    ) -> IndexProgress:
        found = self.admin.describe(topic)
        seen = known.settlement.progress[topic] if known else IndexProgress(topic)

        def resume(progress: IndexProgress) -> IndexProgress:
            declared, topic_id = self.definition.topics[topic], found.topic_id if found else None
            ours = of_cluster(progress, str(self.cluster), topic_id, declared)
            now = resumed(ours, declared.generation, topic_id, self._growth.numbers(topic))
            if not now.acked and found is not None:
                # It begins where the log does, and would bring back what was deleted.
                self._require_ungrown(info, topic)
            elif now.acked and keeper.written_us is not None:
                self._require_young(info, now, keeper.written_us)
            same = seen.generation == now.generation
            return now if now.partitions or not same else replace(now, partitions=seen.partitions)

        return keeper.claim(resume)

    def _require_ungrown(self, info: IndexInfo, topic: str) -> None:
        try:
            require_no_growth(self.definition, topic, self.admin, self.reader)
        except Terminal as error:
            raise TooOld(error.message, **{"index": info.name, **error.details}, fix=error.fix) from error

    def _require_young(self, info: IndexInfo, progress: IndexProgress, written_us: int) -> None:
        """Raise `TooOld` when a deletion that it has not read may be gone: the document would live for ever."""
        kept_ms = self.admin.deletions_kept_ms(progress.topic)
        age_us = self.clock.now_us() - written_us
        if kept_ms is None or age_us <= kept_ms * 1000:
            return
        ends = self.reader.end_offsets(progress.topic)
        if any(end > progress.acked.get(p, 0) for p, end in ends.items()):
            alias = info.name.rpartition("-v")[0]
            raise TooOld(
                "index was not written for longer than its topic keeps deletions",
                index=info.name,
                topic=progress.topic,
                days=round(age_us / 86_400e6, 1),
                kept_days=round(kept_ms / 86_400e3, 1),
                fix=f"Run `lyrebird index rebuild {alias}`, then `lyrebird index promote {alias}`.",
            )


def opened(
    infos: Iterable[IndexInfo], target: Callable[[IndexInfo], ActiveGeneration]
) -> tuple[list[ActiveGeneration], dict[str, TooOld]]:
    """Those of `infos` that `target` opens, and why others lack deletions; raises that when all do.

    One such generation alone must not keep the one that was rebuilt in its place from being written.
    """
    targets, old = [], dict[str, TooOld]()
    for info in infos:
        try:
            targets.append(target(info))
        except TooOld as error:
            old[info.name] = error
    if not targets:
        raise next(iter(old.values()))
    return targets, old
