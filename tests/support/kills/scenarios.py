"""Who is hit where, how, and who goes on: every step of the protocol, killed and stopped, in both groups.

A scenario is a row of hosts, each of which begins when the one before it has been hit, or has committed something
where nothing hits it; the last one ends by itself and has to leave everything stored once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final, Literal

from tests.support.kills.fault_switch import How

__all__ = ["Blow", "HostPlan", "Kind", "Scenario", "dozen", "on_spark", "scenarios"]

Kind = Literal["backup", "partition"]
Wake = Literal["early", "late"]
"""When who was stopped goes on: as soon as somebody has taken over, or when all is stored."""

_KINDS: Final[tuple[Kind, ...]] = ("backup", "partition")
_HOWS: Final[tuple[How, ...]] = ("kill", "stop")


@dataclass(frozen=True, slots=True)
class Blow:
    """At the `nth` time at a place (see `switch`)."""

    place: str
    how: How
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.how} {self.place}{f' #{self.nth}' if self.nth > 1 else ''}"


@dataclass(frozen=True, slots=True)
class HostPlan:
    """A host of a revision of the group; its driver may be hit, and its workers, in order."""

    driver: Blow | None = None
    workers: tuple[Blow, ...] = ()
    revision: int = 1

    def __str__(self) -> str:
        hit = [f"driver {self.driver}"] if self.driver else [f"worker {blow}" for blow in self.workers]
        return " and ".join([f"revision {self.revision}", *hit])


@dataclass(frozen=True, slots=True)
class Scenario:
    """`big`: files go up in parts; `at_once`: so many of a cut's files together."""

    number: int
    kind: Kind
    hosts: tuple[HostPlan, ...]
    wake: Wake
    big: bool = False
    at_once: int = 1
    partitions: int = 2

    def __str__(self) -> str:
        return f"{self.number} {self.kind}: {', then '.join(map(str, self.hosts))}; {self.wake}"

    @property
    def upgraded(self) -> bool:
        """Whether a newer revision takes over."""
        return len({host.revision for host in self.hosts}) > 1


def _around(*objects: str, within: bool = True) -> list[str]:
    moments = ("before", "within", "after") if within else ("before", "after")
    return [f"{moment} {each}" for each in objects for moment in moments]


_WORKER: Final = [
    *_around("list chain", within=False),
    "after batch",
    *_around("put intent", "put data", "put commit"),
]
_PARTS: Final = [
    *[(place, 1) for place in ("before create data", "after create data", *_around("part data"))],
    *[(place, 2) for place in _around("part data")],
    *[(place, 1) for place in ("before complete data", "after complete data")],
]
_ADOPTER: Final = [
    *_around("get intent", within=False),
    *_around("put data"),
    *_around("head data", within=False),
    *_around("put commit"),
]
_FIRST_OF_TWO: Final = ("after put data", "before put commit")
_TAKE_OVER: Final = [
    *[(place, 1) for place in ("before list lives", *_around("get pointer", within=False), *_around("put pointer"))],
    *[(place, 2) for place in _around("put pointer")],
    *[(place, 1) for place in _around("list chain", within=False)],
]
_RESTART: Final = [*_around("put hint", "get hint", within=False)]
_ON_SPARK: Final[tuple[tuple[str, How], ...]] = (
    ("after batch", "kill"),
    ("after put intent", "kill"),
    ("within put data", "kill"),
    ("before put commit", "kill"),
    ("before put intent", "stop"),
    ("within put data", "stop"),
    ("before put commit", "stop"),
)
_BEHIND: Final = [*_around("put intent", "put data", "put commit")]


def scenarios() -> list[Scenario]:
    """All of them; numbers stay the same from run to run."""
    numbers = count(1)
    made = []
    for kind, hosts, partitions, big in _all():
        number = next(numbers)
        wake: Wake = "late" if number % 2 else "early"
        made.append(Scenario(number, kind, hosts, wake, big, 1 + 3 * (number % 3 == 0), partitions))
    return made


def _all() -> Iterator[tuple[Kind, tuple[HostPlan, ...], int, bool]]:
    for kind in _KINDS:
        for how in _HOWS:
            nth_data = [1] if kind == "backup" else [1, 2, 3]
            for place in _WORKER:
                for nth in nth_data if place.endswith("put data") else [1]:
                    yield kind, (HostPlan(workers=(Blow(place, how, nth),)),), 2, False
            for place, nth in _PARTS:
                yield kind, (HostPlan(workers=(Blow(place, how, nth),)),), 1, True
            for first in _FIRST_OF_TWO:
                for place in _ADOPTER:
                    other: How = "stop" if how == "kill" or place.startswith("before") else "kill"
                    blows = (Blow(first, other), Blow(place, how))
                    yield kind, (HostPlan(workers=blows),), 1, False
            for place, nth in _TAKE_OVER:
                blow = Blow(place, how, nth)
                yield kind, (HostPlan(driver=blow), HostPlan()), 2, False
                yield kind, (HostPlan(), HostPlan(driver=blow, revision=2), HostPlan(revision=2)), 2, False
            for place in _around("offsets", within=False):
                yield kind, (HostPlan(driver=Blow(place, how)), HostPlan()), 2, False
            for place in _RESTART:
                yield (
                    kind,
                    (HostPlan(Blow("after offsets", "kill", 2)), HostPlan(Blow(place, how)), HostPlan()),
                    2,
                    False,
                )
        for place in _BEHIND:
            hit = HostPlan(workers=(Blow(place, "stop", 2),))
            yield kind, (hit, HostPlan(revision=2)), 2, False


def on_spark() -> list[Scenario]:
    """Some whose first host is Spark's, with numbers of their own; a stopped worker's place takes another host."""
    hit = [(kind, HostPlan(workers=(Blow(place, how),)), HostPlan()) for kind in _KINDS for place, how in _ON_SPARK]
    return [
        Scenario(1001 + number, kind, (first,) if first.workers[0].how == "kill" else (first, after), "late")
        for number, (kind, first, after) in enumerate(hit)
    ]


def dozen() -> list[Scenario]:
    """Those that stand for all the others where there is little time."""
    return [next(each for each in scenarios() if (each.kind, said) == (kind, _said(each))) for kind, said in _DOZEN]


def _said(scenario: Scenario) -> str:
    return ", then ".join(map(str, scenario.hosts))


_DOZEN: Final[tuple[tuple[Kind, str], ...]] = (
    ("backup", "revision 1 and worker kill within put intent"),
    ("backup", "revision 1 and worker stop within put data"),
    ("backup", "revision 1 and worker stop after part data"),
    ("backup", "revision 1 and worker kill after put commit"),
    ("backup", "revision 1 and driver kill before put pointer #2, then revision 1"),
    ("backup", "revision 1 and worker stop before put data #2, then revision 2"),
    ("partition", "revision 1 and worker kill after put intent"),
    ("partition", "revision 1 and worker stop before put data #2"),
    ("partition", "revision 1 and worker stop after put data and worker kill after head data"),
    ("partition", "revision 1 and worker stop before put commit"),
    ("partition", "revision 1, then revision 2 and driver stop after put pointer, then revision 2"),
    ("partition", "revision 1 and driver kill after offsets, then revision 1"),
)
