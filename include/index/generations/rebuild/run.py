"""Carries out the plan of a rebuild.

The order of these steps is the guarantee; each may be done again:

1. the note says which generation is filled, of which declaration,
2. its index is made, without refreshes and replicas; the alias does not lead there,
3. ranges of the topics are worked off, many at once, and settled in order (`batch`): a kill costs what was in flight,
4. its own settings come back, also when 3 fails; a refresh; its progress documents say what searches see,
5. the application is told to feed it; it claims the progress documents and goes on where 3 ended,
6. the note says that it is followed,
7. it has all that the topics held at the begin of this step.

Killed before 5, the next run goes on at 2 with what 3 has not settled. Killed after 5, it goes on at 6: a rebuild never
writes what the application writes. Two rebuilds at once: the later one fences the earlier one's progress documents.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from include.clock import Clock
from include.errors import Fenced, LyrebirdError, Terminal, Transient
from include.index.batch import Settlement
from include.index.dead_letters import DeadLetters
from include.index.definition import IndexDefinition
from include.index.feed import Feed
from include.index.generations.active import change_fed, read_fed
from include.index.generations.promote import caught_up
from include.index.generations.rebuild.fill import RangePool, fill
from include.index.generations.rebuild.pace import Pace, RebuildProgress
from include.index.generations.rebuild.plan import RebuildPlan, unsettled
from include.index.generations.rebuild.ranges import ranges_of, size_of
from include.index.generations.rebuild_note import read_rebuild, write_rebuild
from include.index.outcome import SETTLED, TaskOutcome
from include.index.progress.document import IndexProgress, ProgressKeeper, ensure_notes, read_progress
from include.index.progress.floors import Floors
from include.index.progress.grown_topics import PartitionCounts, require_no_growth
from include.index.progress.steps import of_cluster, resumed, seen_by_searches
from include.index.server.admin import IndexAdmin
from include.index.server.auto_create import require_no_auto_create
from include.index.server.port import IndexInfo, SearchIndex
from include.index.server_wait import ServerRetry
from include.log.planning.slices import Slice
from include.log.ports import LogReader, TopicAdmin

__all__ = ["FILLING", "ProgressReporter", "RebuildContext", "RebuiltGeneration", "rebuild"]

FILLING: Final[Mapping[str, Any]] = {"refresh_interval": "-1", "number_of_replicas": 0}
"""Settings of an index while it is filled."""
_RANGE: Final = 20_000
_NEAR: Final = 10_000
_MOST_ROUNDS: Final = 20
_OUTAGE_S: Final = 600.0
_NEVER_S: Final = 1e12


@dataclass(frozen=True)
class RebuildContext:
    """The servers, and what is opened on them.

    `letters`: the writer of what the index refuses. `feed`: how a topic's records become documents. `pool`: where
    ranges are worked off.
    """

    index: SearchIndex
    admin: IndexAdmin
    reader: LogReader
    topics: TopicAdmin
    clock: Clock
    letters: Callable[[IndexInfo], contextlib.AbstractContextManager[DeadLetters]]
    feed: Callable[[IndexProgress], Feed]
    pool: Callable[[IndexInfo, Mapping[str, IndexProgress]], RangePool]


@dataclass(frozen=True)
class ProgressReporter:
    """Hears how far a rebuild is, and what it waits for."""

    reached: Callable[[RebuildProgress], None]
    waits: Callable[[str], None]


@dataclass(frozen=True)
class RebuiltGeneration:
    """A generation that has everything and is followed; `counts`: what became of the records of its topics so far."""

    plan: RebuildPlan
    info: IndexInfo
    seconds: float
    counts: Mapping[str, int]

    def lines(self) -> list[str]:
        """For people."""
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts.items() if count)
        return [
            f"{self.plan.name} has everything and is followed by {self.plan.application}: {counts or 'no records'}",
            *([f"refused documents are in the dead letters of {self.plan.application}"] if self.counts["dead"] else []),
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "index": str(self.plan.name),
            "generation": self.plan.name.generation,
            "uuid": self.info.uuid,
            "serving": self.plan.serving,
            "seconds": round(self.seconds, 1),
            "counts": dict(self.counts),
        }


def rebuild(
    plan: RebuildPlan,
    definition: IndexDefinition,
    context: RebuildContext,
    owner: str,
    tell: ProgressReporter,
    *,
    within_s: float,
) -> RebuiltGeneration:
    """Carries out steps 1 to 7. Begun again, it goes on.

    Args:
        plan: of the rebuild.
        definition: of the index.
        context: the servers, and what is opened on them.
        owner: a name that no other process has.
        tell: hears how far the rebuild is, and what it waits for.
        within_s: longest wait for the application to follow.

    Raises:
        Fenced: another rebuild of this generation has begun.
        Terminal: as the tasks of the indexing application do; or the topic was made anew, or has grown.
        Transient: the application did not follow within `within_s`.
    """
    begun_s = context.clock.monotonic_s()
    name = str(plan.name)
    if plan.followed:
        info = _require(context.index, name)
    else:
        for topic in definition.topics:
            require_no_growth(definition, topic, context.topics, context.reader)
        ensure_notes(context.index)
        write_rebuild(context.index, plan.note, plan.last)  # 1
        info = _make(plan, context)  # 2
        progress = _filled(plan, info, definition, context, owner, tell)  # 3, 4
        tell.waits(f"for {plan.application} to follow {name}, from {_offsets(progress)}")
        stored = {one.name.generation for one in context.admin.generations(plan.name.alias)}
        lost = set(read_fed(context.index, plan.name.alias)) - stored
        change_fed(context.index, plan.name.alias, add=[plan.name.generation], remove=lost)  # 5
    note, last = read_rebuild(context.index, plan.name.alias)
    if note is not None and note.generation == plan.name.generation and note.stage == "filling":
        write_rebuild(context.index, note.at("following"), last)  # 6
    ends = {topic: context.reader.end_offsets(topic) for topic in definition.topics}
    lacking = caught_up(context.index, info, ends, context.clock, within_s)  # 7
    if lacking:
        raise Transient(
            "the new generation is whole up to where it was filled, but nobody follows",
            system="lyrebird",
            index=name,
            behind=dict(lacking),
            fix=f"See that {plan.application} runs (`lyrebird status`), then run this again.",
        )
    found = [read_progress(context.index, info, topic) for topic in definition.topics]
    counts = {
        what: sum(of.get(what, 0) for each in found if each for of in each.counts.values())
        for what in ("read", *SETTLED)
    }
    return RebuiltGeneration(plan, info, context.clock.monotonic_s() - begun_s, counts)


def _make(plan: RebuildPlan, context: RebuildContext) -> IndexInfo:
    require_no_auto_create(context.admin, plan.name.alias)
    body = {**plan.body, "aliases": {}, "settings": {**plan.body.get("settings", {}), **FILLING}}
    info = context.index.create(str(plan.name), body)
    # One that is there may have got its own settings back when an earlier run ended.
    context.admin.put_settings(info.name, FILLING)
    return info


def _filled(
    plan: RebuildPlan,
    info: IndexInfo,
    definition: IndexDefinition,
    context: RebuildContext,
    owner: str,
    tell: ProgressReporter,
) -> Mapping[str, IndexProgress]:
    """Steps 3 and 4."""
    own = {name: plan.body.get("settings", {}).get(name) for name in FILLING}
    try:
        keepers = {
            topic: ProgressKeeper(context.index, info, topic, owner, context.clock) for topic in definition.topics
        }
        claimed = {
            topic: keeper.claim(_resuming(plan, definition, context, topic)) for topic, keeper in keepers.items()
        }
        with context.letters(info) as letters:
            settlement = Settlement(
                info=info,
                index=context.index,
                keepers=keepers,
                progress=claimed,
                letters=letters,
                clock=context.clock,
                # Nobody reads it, and each refresh makes one more small segment.
                refresh_s=_NEVER_S,
            )
            _rounds(plan, info, definition, context, settlement, tell)
    except Fenced:
        # The other one fills it: its settings are that one's now.
        raise
    except BaseException:
        with contextlib.suppress(LyrebirdError):
            context.admin.put_settings(info.name, own)
        raise
    context.admin.put_settings(info.name, own)
    context.index.refresh(info.name)
    progress = {topic: seen_by_searches(each) for topic, each in settlement.progress.items()}
    for topic, each in progress.items():
        keepers[topic].save(each)
    return progress


def _rounds(
    plan: RebuildPlan,
    info: IndexInfo,
    definition: IndexDefinition,
    context: RebuildContext,
    settlement: Settlement,
    tell: ProgressReporter,
) -> None:
    """Fill up to the ends that the topics have; again up to those that they have then, until little is left."""
    growth = PartitionCounts(definition, context.topics, context.reader)
    floors = Floors(context.index, info.name, context.reader, context.clock, lambda _: None)
    ids = {topic: of.topic_ids.get(topic, "") for topic, of in settlement.progress.items()}
    pace = Pace(context.clock)
    patience = ServerRetry(
        context.clock, longest_s=_OUTAGE_S, on_wait=lambda error, _: tell.waits(str(error)), stopped=lambda: False
    )
    done = 0
    for turn in range(_MOST_ROUNDS):
        for progress in list(settlement.progress.values()):
            now = floors.look(growth.look(progress), context.feed)
            if now != progress:
                settlement.note(now)
        begins = {topic: context.reader.begin_offsets(topic) for topic in definition.topics}
        ends = {topic: context.reader.end_offsets(topic) for topic in definition.topics}
        work = unsettled(context.index, info.name, begins, ends)
        left = size_of(work)
        if not left or (turn and left < _NEAR):
            return
        total = done + left
        tell.reached(pace.reached(done, total))

        def settle(part: Slice, outcome: TaskOutcome, total: int = total) -> None:
            nonlocal done
            ends = {(part.topic, part.partition): part.end}
            patience.call(lambda: settlement.settle(outcome, ends, {part.topic: ids[part.topic]}))
            done += part.size
            tell.reached(pace.reached(done, total))

        pool = context.pool(info, settlement.progress)
        try:
            fill(ranges_of(work, _RANGE), pool, settle, context.clock, tell.waits)
        finally:
            pool.close()


def _resuming(
    plan: RebuildPlan, definition: IndexDefinition, context: RebuildContext, topic: str
) -> Callable[[IndexProgress], IndexProgress]:
    """Where to begin or to go on, with what the index that serves knows of the topic itself."""
    described = context.topics.describe(topic)
    numbers = PartitionCounts(definition, context.topics, context.reader).numbers(topic)
    if described is None:
        raise Terminal("topic does not exist", topic=topic, fix=f"Start the application that writes {topic}.")
    serving = context.index.describe(plan.serving) if plan.serving else None
    known = read_progress(context.index, serving, topic) if serving else None
    declared, cluster = definition.topics[topic], context.feed(IndexProgress(topic)).origin.cluster
    if known is not None:
        of_cluster(known, cluster, described.topic_id, declared)

    def resume(progress: IndexProgress) -> IndexProgress:
        ours = of_cluster(progress, cluster, described.topic_id, declared)
        progress = resumed(ours, declared.generation, described.topic_id, numbers)
        progress = replace(progress, topic_ids={**progress.topic_ids, topic: described.topic_id})
        if known is None or known.topic_ids.get(topic) != described.topic_id or progress.acked:
            return progress
        return replace(progress, partitions=known.partitions, floors=known.floors, control_acked=known.control_acked)

    return resume


def _require(index: SearchIndex, name: str) -> IndexInfo:
    info = index.describe(name)
    if info is None:
        alias = name.rpartition("-v")[0]
        raise Terminal("index was lost", index=name, fix=f"Run `lyrebird index rebuild {alias} --new`.")
    return info


def _offsets(progress: Mapping[str, IndexProgress]) -> str:
    return ", ".join(f"{topic} {sum(of.acked.values()):,}" for topic, of in progress.items())
