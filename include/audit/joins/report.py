"""The report of an audit of a join, in words and as JSON, with the command that comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from include.audit.nothing import NothingJudged

__all__ = ["EMPTY_PART", "KINDS", "JoinReport", "counted", "judged", "named"]

KINDS: Final = ("missing", "extra", "stale", "altered")
EMPTY_PART: Final = "no output of either side falls into this part: nothing was compared"


@dataclass(frozen=True)
class JoinReport:
    """The result, and up to where it holds.

    Args:
        audit: its name.
        topic: the joined topic.
        at: when it was made.
        positions: source → what was judged, as GTIDs.
        expected: outputs that SQL makes of the inputs.
        held: outputs that the topic holds.
        found: kind → so many keys.
        keys: kind → some of them.
        uncovered: tables whose changes are not judged.
        unreadable: records of inputs that nobody can read, which the join set aside.
        sample: one of so many outputs was compared.
        records: offsets below the cut, of inputs and of the joined topic.
        named: keys of records that are wrong, in hexadecimal digits, for a repair.
        whole: a repair has to write all outputs again, as some are missing or too many are wrong.
    """

    audit: str
    topic: str
    at: str
    positions: Mapping[str, str]
    expected: int
    held: int
    found: Mapping[str, int]
    keys: Mapping[str, tuple[str, ...]]
    uncovered: tuple[str, ...] = ()
    unreadable: int = 0
    sample: int = 1
    records: int = 0
    kinds: tuple[str, ...] = field(default=KINDS)
    named: tuple[str, ...] = ()
    whole: bool = False

    @property
    def findings(self) -> int:
        """Keys with something wrong."""
        return sum(self.found.values())

    @property
    def verdict(self) -> Literal["clean", "findings", "incomplete"]:
        """What it comes to; incomplete where no output of either side falls into the part that was compared."""
        nothing = self.sample > 1 and not (self.expected or self.held)
        return "findings" if self.findings else "incomplete" if nothing else "clean"

    @property
    def clean(self) -> bool:
        """Whether the topic is the join of its inputs."""
        return self.verdict == "clean"

    @property
    def or_nothing(self) -> JoinReport | NothingJudged:
        """The report, or that it has judged nothing: no side has a record yet."""
        if self.findings or self.records:
            return self
        why = f"no input has a record yet, and {self.topic} none either"
        return NothingJudged(self.audit, self.at, why, self.topic)

    @property
    def next_command(self) -> str:
        """What to run now; empty when nothing is to be done."""
        return f"lyrebird audit join {self.audit} --repair" if self.findings else ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        said = asdict(self)
        del said["kinds"], said["named"]
        verdict = {"verdict": self.verdict, "clean": self.clean, "findings": self.findings}
        return {**said, **verdict, "next_command": self.next_command}

    def lines(self) -> list[str]:
        """For a person: the verdict, the findings by key, the next step."""
        part = f" (one of {self.sample} outputs)" if self.sample > 1 else ""
        return [
            f"audit {self.audit}{part}: {counted(self.found, self.kinds) if self.findings else self.verdict}",
            f"  the inputs make {self.expected:,} outputs, {self.topic} holds {self.held:,}",
            *([f"  {EMPTY_PART}"] if self.verdict == "incomplete" else []),
            *judged(self.positions, self.uncovered, self.unreadable),
            *named(self.found, self.keys, self.kinds),
            *([f"next: {self.next_command}"] if self.next_command else []),
        ]


def counted(found: Mapping[str, int], kinds: Sequence[str]) -> str:
    """Counts of findings by kind in words; `clean` without any."""
    return ", ".join(f"{found[kind]:,} {kind}" for kind in kinds if found.get(kind)) or "clean"


def judged(positions: Mapping[str, str], uncovered: Sequence[str], unreadable: int) -> list[str]:
    """Up to where a report holds, and what it does not speak of."""
    out = [f"  judged up to {position} of {source}" for source, position in positions.items()]
    if uncovered:
        out.append(f"  not covered: {', '.join(uncovered)}")
    if unreadable:
        out.append(f"  {unreadable:,} records of inputs cannot be read and are not judged")
    return out


def named(found: Mapping[str, int], some_of: Mapping[str, Sequence[str]], kinds: Sequence[str]) -> list[str]:
    """Some of each kind, and how many more there are."""
    out = list[str]()
    for kind in kinds:
        some = some_of.get(kind, ())
        out += [f"{kind}: {each}" for each in some]
        if found.get(kind, 0) > len(some):
            out.append(f"{kind}: … and {found[kind] - len(some):,} more")
    return out
