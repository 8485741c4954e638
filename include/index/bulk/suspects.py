"""Documents that a server answers with its own fault time and again: is it away, or does it break at the document?

An ingest pipeline or a plugin with a bug breaks at one document for ever, with a status of 5xx as an outage has. A
document is taken for the cause when it was answered so several times, and the request that breaks again has two
others answered: a probe of its own shard, and a witness, which is a living document that was taken before. Neither
changes anything. The probe passes by pipelines, the witness goes through them: so neither server, nor shard, nor
pipeline is away. The witness is a sibling that passed; where none did, `witness` brings one.

No outage is mistaken for such a document, whoever brought the witness. What counts is not that it was taken once, but
that it is answered again, in the very request in which the suspect fails. While the server, its master, the suspect's
shard, or a pipeline fails at everything, one of both fails as well, and the suspect waits. So it does without a
witness, as then everything may be broken. A pipeline that fails at some documents alone is no outage: those are set
aside, until they are too many (`dead_run`, `dead_ratio`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from include.index.bulk.request import BulkLine, probe_of
from include.index.bulk.witness import MOST_WITNESS_BYTES
from include.index.server.port import ItemAnswer

__all__ = ["Suspects", "all_works"]

_LEAST_FAULTS: Final = 5
_ALIVE: Final = frozenset({200, 404, 409})
# Versions are compared after pipelines and parsers have run.
_TAKEN: Final = frozenset({200, 201, 409})


def all_works(witnessed: ItemAnswer, probed: ItemAnswer) -> bool:
    """Whether witness and probe were answered as by a server and a shard that work."""
    return witnessed.status in _TAKEN and probed.status in _ALIVE


@dataclass
class _Suspect:
    # Kept, as it is known by its identity: equal lines are two.
    line: BulkLine
    faults: int = 0


class Suspects:
    """Those of one delivery."""

    def __init__(self) -> None:
        self._of: dict[int, _Suspect] = {}
        self._witness: BulkLine | None = None
        self._asked = False

    @property
    def lack_witness(self) -> bool:
        """Whether one of them waits for a witness, which nobody was asked for yet."""
        ripe = any(found.faults >= _LEAST_FAULTS for found in self._of.values())
        return ripe and self._witness is None and not self._asked

    def bear(self, witness: BulkLine | None) -> None:
        """What was brought; None: nothing was to be had. It is for these lines: later it may be none any more."""
        self._witness, self._asked = witness, True

    def answered(self, line: BulkLine, *, broken: bool, probed: bool) -> None:
        """It is to be sent again. `broken`: for a fault of the server; `probed`: probe or witness were, too."""
        if probed:
            self.forget(line)
        if broken:
            self._of.setdefault(id(line), _Suspect(line)).faults += 1

    def others_passed(self, line: BulkLine) -> None:
        """The server took this document, or has a newer state of it. A tombstone has nothing for pipelines to do."""
        if not line.deleted and len(line.data) <= MOST_WITNESS_BYTES:
            self._witness = line

    def ripe(self, line: BulkLine) -> bool:
        """Whether it goes alone, with witness and probe."""
        found = self._of.get(id(line))
        return found is not None and found.faults >= _LEAST_FAULTS and self._witness is not None

    def groups(self, lines: Sequence[BulkLine]) -> list[list[BulkLine]]:
        """How they are sent again: ripe ones alone, the others together."""
        rest = [line for line in lines if not self.ripe(line)]
        alone = [[line] for line in lines if self.ripe(line)]
        return [*alone, rest] if rest else alone

    def beside(self, group: Sequence[BulkLine]) -> tuple[BulkLine, ...]:
        """Witness and probe, where this group is one ripe document; else nothing."""
        if self._witness is None or len(group) != 1 or not self.ripe(group[0]):
            return ()
        return self._witness, probe_of(group[0])

    def forget(self, line: BulkLine) -> None:
        """It is settled, or was wrongly suspected."""
        self._of.pop(id(line), None)

    def clear(self) -> None:
        """Forget all."""
        self._of.clear()
        if self._asked:
            self._witness, self._asked = None, False
