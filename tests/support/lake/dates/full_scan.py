"""The oracle of what is kept of dates: every commit is read each time, and nothing is kept."""

from __future__ import annotations

from include.lake.dates.event_hours import CalendarPeriod
from include.lake.dates.kept import folders_of
from include.lake.finalising.mark import _judge, _standing
from include.lake.finalising.plan import TopicPlan
from include.lake.finalising.scan import DatedObject, Folder, NamedTimes, TopicDates
from include.lake.inspect.listing import Dates, ListedObject, _chosen
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.generations import lives
from include.lake.protocol.pointer import read_pointer
from include.lake.protocol.read_cuts import read_cuts, read_partitions
from tests.support.lake.dates.harness import DatesHarness

__all__ = ["listed_fully", "planned_fully"]


def planned_fully(world: DatesHarness, topic: str = "events") -> TopicPlan:
    """What finalising has to do now."""
    gathered, folders = _gathered(world, topic)
    info = next((info for info in world.topics() if info.name == topic), None)
    standing = _standing(world.store, "by_date", topic, list(folders))
    return _judge(world, world.group, gathered, info, world.clock)(folders, standing)


def _gathered(world: DatesHarness, topic: str) -> tuple[TopicDates, dict[Folder, list[DatedObject]]]:
    store, found, folders = world.store, TopicDates(topic), dict[Folder, list[DatedObject]]()
    for life in lives(store, "by_date", topic):
        pointer = read_pointer(store, life)
        found.heads[life.topic_id] = {}
        for partition in read_partitions(store, life, pointer):
            head, times = pointer.floor(partition) or None, list[NamedTimes]()
            for cut in read_cuts(store, life, pointer, partition):
                commit, head = cut.commit, cut.commit.next
                for file in commit.files:
                    names = cut.chain.parse_data(file.key, commit.first).names
                    period = CalendarPeriod.of(names)
                    if file.records and period is not None:
                        times.append(NamedTimes(period, file.records, file.min_ts, file.max_ts))
                        one = DatedObject(
                            file.key, file.sha256, file.records, file.bytes, life.topic_id, partition, commit.first
                        )
                        for folder in folders_of(names):
                            folders.setdefault(folder, []).append(one)
                if commit.n_records and commit.filtered == commit.n_records:
                    times.append(NamedTimes(None, commit.n_records, commit.min_ts, commit.max_ts))
            found.times[life.topic_id, partition] = times
            if head is not None:
                found.heads[life.topic_id][partition] = head
            for generation in {entry.generation for entry in pointer.entries}:
                chain = ChainKey(life, generation, partition)
                for commit in Chain(store, chain).commits(pointer.floor(partition), contiguous=False):
                    if pointer.generation_of(partition, commit.first) != generation:
                        for file in commit.files:
                            if file.records:
                                for folder in folders_of(chain.parse_data(file.key, commit.first).names):
                                    folders.setdefault(folder, [])
    return found, folders


def listed_fully(
    world: DatesHarness, dates: Dates, *, refused: bool = False, prefix: str = "by_date"
) -> list[ListedObject]:
    """What readers of these dates have to read."""
    found = []
    for life in lives(world.store, prefix, "events"):
        pointer = read_pointer(world.store, life)
        for partition in read_partitions(world.store, life, pointer):
            for chain, commit in read_cuts(world.store, life, pointer, partition):
                for file in commit.files:
                    key = chain.parse_data(file.key, commit.first)
                    chosen = _chosen(file, CalendarPeriod.of(key.names), dates, dates.span_ms)  # type: ignore[arg-type]
                    if file.records and key.refused is refused and chosen is not None:
                        of_cut = (partition, chain.generation, commit.first, commit.next, file.bytes, file.records)
                        found.append(ListedObject(file.key, *of_cut, file.sha256, file.min_ts, file.max_ts, chosen))
    return sorted(found, key=lambda each: each.key)
