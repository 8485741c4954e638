"""Up to where a join is judged: the offsets of its inputs that its writer spoke for last.

The same record names the joined topic's own ends: between these both sides are the same moment. Later records are not
looked at, so the join may go on meanwhile; and as the log compacts nothing that young, all records are still there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from include.errors import Transient
from include.log import topics
from include.log.planning.plan import Partition
from include.log.ports import LogReader
from include.log.publishing.last_mark import newest_of, partitions_of

__all__ = ["JoinCut", "join_cut"]


@dataclass(frozen=True)
class JoinCut:
    """Where both sides are cut.

    Args:
        inputs: partition → next offset, of all that the join reads.
        output: the same of the joined topic.
        state: next offset of the topic of the state's pointers; None where the record does not tell.
        positions: source → what the joined topic is complete to, as its GTIDs say it.
        uncovered: tables whose changes it may lack.
    """

    inputs: Mapping[Partition, int]
    output: Mapping[Partition, int]
    state: int | None
    positions: Mapping[str, str]
    uncovered: tuple[str, ...]

    def records(self, inputs: Collection[str]) -> int:
        """Offsets below the cut, of these inputs and of the joined topic: 0 where no side has a record yet."""
        return sum(end for (topic, _), end in self.inputs.items() if topic in inputs) + sum(self.output.values())


def join_cut(reader: LogReader, topic: str) -> JoinCut:
    """The newest cut of a joined topic; raises `Transient` when nothing is resolved yet."""
    name = topics.resolved(topic)
    view, _, spoken = newest_of(reader, name)
    if spoken is None or spoken.committed is None:
        raise Transient("the join has not said yet what it is complete to", system="log", topic=name, attempt=1)
    told = {source: last for source in view.sources() if (last := view.of(source)) is not None}
    return JoinCut(
        partitions_of(spoken.committed),
        {at: end for at, end in spoken.ends.items() if at[0] == topic},
        spoken.ends.get((topics.state(topic), 0)),
        {source: str(last.position.gtids) for source, last in sorted(told.items())},
        tuple(sorted({table for last in told.values() for table in last.uncovered})),
    )
