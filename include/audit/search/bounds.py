"""Decides by its record's offset whether an audit judges a document of a topic.

| document | is |
|---|---|
| from at or above `window` | above: written after the cut, not judged |
| from below `starts` | unproven: the log has let its record go (retention), so nobody can say what should be there |
| of an older generation of the topic | judged if the log holds the newest record of every key, else unproven |
| others | judged |

Offsets of a topic that was made anew count from the beginning again, so they are compared within a generation alone.

An audit may look at one part after the other: whole partitions, as all records of a key lie in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Protocol, Self

__all__ = ["NO_LOWS", "AuditBounds", "DocumentPlace", "PartitionShare", "Window", "parts_of"]

Window = Mapping[int, int]
"""Partition -> offset: documents from below these offsets count. A partition that is not named counts nothing."""
NO_LOWS: Final[Window] = MappingProxyType({})
"""Low watermarks: from the beginning of each partition."""


class DocumentPlace(Protocol):
    """The coordinates of a document's record; `generation` is the topic's (0: the document does not say)."""

    @property
    def partition(self) -> int:
        """The record's partition."""

    @property
    def offset(self) -> int:
        """The record's offset."""

    @property
    def generation(self) -> int:
        """The topic's generation."""


@dataclass(frozen=True, slots=True)
class PartitionShare:
    """Documents of these partitions; of all others where not `inside`."""

    partitions: frozenset[int]
    inside: bool = True

    def has(self, partition: int) -> bool:
        """Whether documents of that partition belong to it."""
        return (partition in self.partitions) is self.inside


def parts_of(above: Mapping[int, int], most: int) -> tuple[list[PartitionShare], frozenset[int]]:
    """Parts that have each document once, with at most `most` from above the bounds in each; what is in none.

    Args:
        above: partition → documents from above the bounds.
        most: of a part; a partition with more is in none.
    """
    left = frozenset(partition for partition, count in above.items() if count > most)
    groups: list[tuple[int, set[int]]] = [(0, set())]
    for partition, count in sorted(above.items()):
        if partition in left:
            continue
        size, members = groups[-1]
        if size + count > most:
            groups.append((count, {partition}))
        else:
            groups[-1] = (size + count, {*members, partition})
    apart = [PartitionShare(frozenset(members)) for _, members in groups[1:]]
    # The first also has the partitions of which nothing was said.
    elsewhere = left.union(*(part.partitions for part in apart))
    return [PartitionShare(elsewhere, inside=False), *apart], left


@dataclass(frozen=True, slots=True)
class AuditBounds:
    """`window` is the cut, `generation` the topic's (0: of no account), `starts` the first offsets that the log holds.

    With `lows` only documents whose records lie from these offsets on are counted by range. `keyed`: a record tells
    what became of all earlier ones of its key. Only documents of `part` are looked at.
    """

    window: Window
    generation: int = 0
    starts: Window = field(default_factory=dict)
    lows: Window = field(default_factory=dict)
    keyed: bool = True
    part: PartitionShare | None = None

    def looked_at(self, place: DocumentPlace) -> bool:
        """Whether it belongs to the part."""
        return self.part is None or self.part.has(place.partition)

    def held_from(self, starts: Window) -> Self:
        """The same where the log begins at `starts`."""
        return replace(self, starts={p: start for p, start in sorted(starts.items()) if start > 0})

    @property
    def older_proven(self) -> bool:
        """Whether what the topic's former generations left is judged: the log says of every key what it is now."""
        return self.keyed and not self.starts

    def older(self, place: DocumentPlace) -> bool:
        """Whether it is from a former generation of the topic."""
        return 0 < place.generation < self.generation

    def unproven(self, place: DocumentPlace) -> bool:
        """Whether the log has let go the record, so that nobody can tell whether the document should be there."""
        if self.older(place):
            return not self.older_proven
        return place.offset < self.starts.get(place.partition, 0)

    def above(self, place: DocumentPlace) -> bool:
        """Whether it was written from beyond the cut."""
        return not self.older(place) and place.offset >= self.window.get(place.partition, 0)

    def counted(self, place: DocumentPlace) -> bool:
        """Whether a count by ranges has it."""
        if self.unproven(place) or not self.looked_at(place):
            return False
        if self.older(place):
            return not any(self.lows.values())
        return self.lows.get(place.partition, 0) <= place.offset < self.window.get(place.partition, 0)
