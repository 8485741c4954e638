"""Definitions of findings about the lake's chains: coordinates, meaning, and the command that comes next."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from include.lake.protocol.chain_key import ChainKey, TopicKey

__all__ = ["RULE_TOOK", "ChainFault", "ChainFinding", "Findings", "counted"]

RULE_TOOK: Final = "if a lifecycle rule of the bucket took it, `lyrebird lake forget` accepts that"

ChainFault = Literal[
    "chain unreadable",
    "commit missing",
    "counts differ",
    "hole",
    "intent broken",
    "intent stale",
    "object changed",
    "object extra",
    "object missing",
    "object wrong",
    "pointer wrong",
    "read twice",
    "summary wrong",
]
"""chain unreadable: an intent, commit or foreign object that stops readers and writers; commit missing: a summary still
has it; counts differ: groups read other numbers of records; hole: offsets in no commit that readers find; intent
broken: none for a commit, another than the commit's, or one where no cut can be; intent stale: nobody finished its cut;
object changed: other bytes than its commit says; object extra: no commit lists it; object missing: its commit does;
object wrong: its bytes are as committed, its records are not; pointer wrong: it cannot be followed; read twice: offsets
in two cuts that readers find; summary wrong: it does not hold the commits that it stands for."""


@dataclass(frozen=True, slots=True)
class ChainFinding:
    """One fault. Offsets are [`first`, `until`), None where it is no matter of offsets; `key` may be empty."""

    fault: ChainFault
    group: str
    topic: str
    topic_id: str
    generation: int | None
    partition: int | None
    first: int | None
    until: int | None
    key: str
    meaning: str
    next_command: str

    def to_json(self) -> dict[str, Any]:
        """Plain values, with all keys."""
        return asdict(self)

    def line(self) -> str:
        """For a person, on one line."""
        coordinates = [f"generation {self.generation}"] if self.generation is not None else []
        coordinates += [f"partition {self.partition}"] if self.partition is not None else []
        if self.first is not None:
            until = f" to {self.until - 1}" if self.until is not None and self.until > self.first + 1 else ""
            coordinates.append(f"{'offsets' if until else 'offset'} {self.first}{until}")
        where = f" ({', '.join(coordinates)})" if coordinates else ""
        key = f" {self.key}" if self.key else ""
        return f"{self.fault}: {self.group}{where}:{key} {self.meaning}"


_MADE_AGAIN: Final = frozenset({"object missing", "object changed", "object wrong"})


class Findings(list[ChainFinding]):
    """Those of one group; makes them from where they are. `parsed`: its objects can be made again from a backup."""

    def __init__(self, group: str, *, parsed: bool = False) -> None:
        super().__init__()
        self.group, self._parsed = group, parsed

    def add(
        self,
        fault: ChainFault,
        place: ChainKey | TopicKey | str,
        meaning: str,
        *,
        first: int | None = None,
        until: int | None = None,
        key: str = "",
        run: str = "",
    ) -> None:
        """Note a fault of the group.

        Args:
            fault: its kind.
            place: the chain, or a life of the topic; the topic's name where no life of it is meant.
            meaning: what is wrong, in words.
            first: offset at which it begins, None where it is no matter of offsets.
            until: offset before which it ends, None where nobody knows.
            key: of the object, "" for none.
            run: command that comes next, with `{topic}`, `{group}` and `{key}`, which are filled in, fit for a shell;
                "": a backfill's plan where that helps, else what tells of the offset.
        """
        chain = place if isinstance(place, ChainKey) else None
        life = place if isinstance(place, TopicKey) else chain.of if chain else None
        topic = life.topic if life else str(place)
        if not run:
            run = "lyrebird lake status"
            if chain is not None and first is not None:
                run = f"lyrebird lake where {{topic}} {chain.partition} {first}"
                if self._parsed and fault in _MADE_AGAIN:
                    span = f"{chain.partition}:{first}-{until or first + 1}"
                    run = f"lyrebird lake backfill {{topic}} --group {{group}} --offsets {span} --dry-run"
        names = {"topic": topic, "group": self.group, "key": key}
        command = run.format(**{name: shlex.quote(text) for name, text in names.items()})
        generation, partition = (chain.generation, chain.partition) if chain else (None, None)
        self.append(
            ChainFinding(
                fault,
                self.group,
                topic,
                life.topic_id if life else "",
                generation,
                partition,
                first,
                until,
                key,
                meaning,
                command,
            )
        )


def counted(number: int, one: str, many: str = "") -> str:
    """`1 object`, `3 objects`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
