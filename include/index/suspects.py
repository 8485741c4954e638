"""Documents that a server answers with its own fault time and again: is it away, or does it break at the document?

An ingest pipeline or a plugin with a bug breaks at one document for ever, with a status of 5xx as an outage has. A
document is taken for the cause when it was answered so several times, other documents were taken since the first, and
its own shard answers a probe in the request that breaks again: then neither server nor shard is away. While nothing
else passes it is waited for, as then everything may be broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from include.index.bulk import ItemAnswer, Line, probe_of

__all__ = ["Suspects", "shard_works"]

_LEAST_FAULTS: Final = 5
_ALIVE: Final = frozenset({200, 404, 409})


def shard_works(probed: ItemAnswer) -> bool:
    """Whether a probe was answered as by a shard that works."""
    return probed.status in _ALIVE


@dataclass
class _Suspect:
    # Kept, as it is known by its identity: equal lines are two.
    line: Line
    faults: int = 0
    others_passed: bool = False


class Suspects:
    """Those of one delivery."""

    def __init__(self) -> None:
        self._of: dict[int, _Suspect] = {}

    def answered(self, line: Line, *, broken: bool, probed: bool) -> None:
        """It is to be sent again. `broken`: for a fault of the server; `probed`: its shard answered no probe either."""
        if probed:
            self.forget(line)
        if broken:
            self._of.setdefault(id(line), _Suspect(line)).faults += 1

    def others_passed(self) -> None:
        """The server took other documents."""
        for suspect in self._of.values():
            suspect.others_passed = True

    def ripe(self, line: Line) -> bool:
        """Whether it goes alone, with a probe of its shard."""
        found = self._of.get(id(line))
        return found is not None and found.faults >= _LEAST_FAULTS and found.others_passed

    def groups(self, lines: Sequence[Line]) -> list[list[Line]]:
        """How they are sent again: ripe ones alone, the others together."""
        rest = [line for line in lines if not self.ripe(line)]
        alone = [[line] for line in lines if self.ripe(line)]
        return [*alone, rest] if rest else alone

    def probe(self, group: Sequence[Line]) -> Line | None:
        """What goes behind this group, where it is one ripe document."""
        return probe_of(group[0]) if len(group) == 1 and self.ripe(group[0]) else None

    def forget(self, line: Line) -> None:
        """It is settled, or was wrongly suspected."""
        self._of.pop(id(line), None)

    def clear(self) -> None:
        """Forget all."""
        self._of.clear()
