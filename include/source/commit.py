"""A group → one Kafka transaction: rows, control records, answers, and the resolved record last.

Steps, in this order:
 1. begin
 2. append the group's records; of a group that is larger than memory should hold, in parts (`extend`)
 3. flush, and learn the offsets after the last record of each partition
 4. append the resolved record (and, after a full map, tombstones of the deltas that it replaces)
 5. commit: all of it is seen by readers, or nothing
A crash before 5 leaves nothing: the next writer's fence aborts it. After a crash in 5 the topic alone says whether it
happened.
"""

from __future__ import annotations

from collections.abc import Iterable

from include.clock import Clock
from include.log.ports import LogWriter
from include.log.resolved import Resolved, ResolvedWriter
from include.log.topics import source_resolved
from include.record.version import to_header
from include.source.checkpoint import Checkpoint
from include.source.group import Group, Output

__all__ = ["Committer"]

_FULL_EVERY_US = 300_000_000


class Committer:
    """Writes the groups of one source through one fenced writer; of no use after an error from `commit`."""

    def __init__(self, name: str, writer: LogWriter, checkpoint: Checkpoint, clock: Clock) -> None:
        self._topic = source_resolved(name)
        self._writer = writer
        self._clock = clock
        self._begun = self._appended = False
        self._resolved = ResolvedWriter(
            name, checkpoint.last, checkpoint.ends, deltas=checkpoint.deltas, full_every_us=_FULL_EVERY_US
        )

    def extend(self, outputs: Iterable[Output]) -> None:
        """Steps 1 and 2 for a part of a group: nobody sees it before the rest is committed."""
        if not self._begun:
            self._writer.begin()
            self._begun = True
        for output in outputs:
            self._appended = True
            self._writer.append(
                output.topic,
                output.key,
                output.value,
                headers=(to_header(output.version),),
                partition=output.partition,
            )

    def commit(self, group: Group) -> Resolved:
        """Carry out the steps above; returns the resolved record. Raises what the writer raises."""
        self.extend(group.outputs)
        ends = self._writer.next_offsets() if self._appended else {}
        record, appended = self._resolved.records(
            ends,
            version=group.version,
            position=group.position,
            now_us=self._clock.now_us(),
            uncovered=group.uncovered,
            state=group.state.to_json(),
        )
        headers = (to_header(group.version),)
        for key, value in appended:
            self._writer.append(self._topic, key, value, headers=headers)
        self._writer.commit()
        self._begun = self._appended = False
        return record
