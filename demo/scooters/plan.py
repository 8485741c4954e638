"""Draws what a fleet sends, and what is true of it, without a clock and without a log.

Every scooter sends a track about once a minute, over whichever partition the network chooses. It is ridden and parked
in turn; now and then it is silent. Silences are planned, so what an offline detector has to say is known beforehand. To
make that hard:

* partition 0 brings nothing at all for ten minutes of every hour;
* the others bring everything later than it, each by its own while, and fewer tracks;
* in each partition a track may come up to five seconds behind one that is later;
* some silences are just as long as the timeout, or seven seconds longer, and many lie around it;
* into some silences a track is planted that comes far too late.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["DISORDER_US", "PARTITIONS", "TIMEOUT_US", "FleetPlan", "LockEvent", "ScooterTrack", "Silence"]

_MS: Final = 1_000
_SECOND: Final = 1_000_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE

DISORDER_US: Final = 5 * _SECOND
"""A track comes less than this behind a later one of its partition."""
TIMEOUT_US: Final = 30 * _MINUTE
"""A scooter that is silent for so long is offline."""
PARTITIONS: Final = 4
_SHARES: Final = (4, 3, 2, 1)
_BEHIND: Final = tuple(seconds * _SECOND for seconds in (0, 15, 30, 60))
_IDLE: Final = range(20 * _MINUTE, 30 * _MINUTE)
_TOO_LATE: Final = 10 * _MINUTE
_SILENCES: Final = (TIMEOUT_US, TIMEOUT_US + 7 * _SECOND, 0, 0, 0)
"""0: drawn."""
_TURNS, _SILENT, _STOLEN, _PLANTED = 0.04, 0.02, 0.05, 0.5
_FIRST_PLACE: Final = (41.38, 2.17)


class ScooterTrack(NamedTuple):
    """What a scooter says of itself at `time`, µs; `late`: it is planted to come too late."""

    time: int
    device: str
    rider: str
    battery: int
    lat: float
    lon: float
    partition: int
    late: bool


class LockEvent(NamedTuple):
    """A scooter is locked or unlocked at `time`, µs."""

    time: int
    device: str
    locked: bool


class Silence(NamedTuple):
    """A scooter sends nothing between `last` and `next`, µs; None: nothing after it either."""

    device: str
    last: int
    next: int | None


@dataclass
class _Scooter:
    device: str
    rider: str
    lat: float
    lon: float
    battery: int = 100
    riding: bool = True
    stolen: bool = False


class FleetPlan:
    """The plan of `scooters` from `begin_us` on; the same arguments give the same one.

    Attributes:
        silences: those longer than the timeout which have begun.
        last: the newest track of each scooter.
    """

    def __init__(self, seed: int, begin_us: int, scooters: int = 200, prefix: str = "s") -> None:
        self._rng = random.Random(f"{seed}/scooters/{prefix}")  # noqa: S311 - a reproducible draw, not a secret
        self._begin = begin_us - begin_us % _MS
        self._riders = 0
        self._fleet = [self._scooter(f"{prefix}{number}") for number in range(scooters)]
        starts = [(self._begin + self._rng.randrange(_MINUTE // _MS) * _MS, number) for number in range(scooters)]
        self._next = starts
        heapq.heapify(self._next)
        self._sent: list[tuple[int, int, ScooterTrack | LockEvent]] = []
        self._drawn = 0
        self.silences: list[Silence] = []
        self.last: dict[str, int] = {}
        for partition, scooter in zip(range(PARTITIONS), self._fleet, strict=False):
            # Each partition brings something from the beginning, so none counts as idle before it has begun.
            self._put(self._begin, self._track(scooter, self._begin, partition))
            self.last[scooter.device] = self._begin

    def until(self, now_us: int) -> Iterator[ScooterTrack | LockEvent]:
        """Gives what arrives up to `now_us`, in the order of arrival; times only go up."""
        while self._next[0][0] <= now_us:
            time, number = heapq.heappop(self._next)
            heapq.heappush(self._next, (self._step(self._fleet[number], time), number))
        while self._sent and self._sent[0][0] <= now_us:
            yield heapq.heappop(self._sent)[2]

    def rest(self) -> Iterator[ScooterTrack | LockEvent]:
        """Gives what is still on its way, but no track that comes too late; then a last one over each partition."""
        while self._sent:
            sent = heapq.heappop(self._sent)[2]
            if isinstance(sent, LockEvent) or not sent.late:
                yield sent
        end = max(self.last.values())
        for partition, scooter in zip(range(PARTITIONS), self._fleet, strict=False):
            self.last[scooter.device] = end
            yield self._track(scooter, end, partition)
        # A silence that would have gone on ends with the last track, or is one of those that begin with it.
        self.silences = [
            each if (each.next or end) <= end else each._replace(next=self._ended(each, end)) for each in self.silences
        ]

    def _ended(self, silence: Silence, end: int) -> int | None:
        return end if self.last[silence.device] == end else None

    def _scooter(self, device: str) -> _Scooter:
        lat, lon = (round(place + self._rng.uniform(-0.02, 0.02), 5) for place in _FIRST_PLACE)
        return _Scooter(device, self._rider(), lat, lon)

    def _rider(self) -> str:
        self._riders += 1
        return f"r{self._rng.randrange(max(self._riders // 2, 1))}"

    def _step(self, scooter: _Scooter, time: int) -> int:
        """A track at `time`, and what goes with it; when the next one is."""
        rng = self._rng
        if rng.random() < _TURNS:
            self._turn(scooter, time)
        self._move(scooter)
        partition = self._partition(time)
        self._send(self._track(scooter, time, partition), partition)
        self.last[scooter.device] = time
        if scooter.riding or rng.random() >= _SILENT:
            return time + rng.randrange(45_000, 75_000) * _MS
        silence = rng.choice(_SILENCES) or rng.randrange(TIMEOUT_US // 2, TIMEOUT_US * 3 // 2, _MS)
        if silence > TIMEOUT_US:
            self.silences.append(Silence(scooter.device, time, time + silence))
            if rng.random() < _PLANTED:
                inside = time + rng.randrange(_MINUTE, silence - _MINUTE, _MS)
                slow = rng.randrange(1, PARTITIONS)
                self._send(self._track(scooter, inside, slow)._replace(late=True), slow, _TOO_LATE)
        return time + silence

    def _turn(self, scooter: _Scooter, time: int) -> None:
        """A ride begins or ends; a parked scooter may be carried away, and gets another battery when it is low."""
        scooter.riding = not scooter.riding
        if scooter.riding:
            scooter.rider = self._rider()
        scooter.stolen = not scooter.riding and self._rng.random() < _STOLEN
        if not scooter.riding and scooter.battery < 30:
            scooter.battery = 100
        # It is locked behind the last track of its ride, and unlocked before the first one.
        self._send(LockEvent(time - _MS, scooter.device, not scooter.riding), 0)

    def _move(self, scooter: _Scooter) -> None:
        if scooter.riding or scooter.stolen:
            scooter.lat = round(scooter.lat + self._rng.uniform(-0.002, 0.002), 5)
            scooter.lon = round(scooter.lon + self._rng.uniform(-0.002, 0.002), 5)
        if scooter.riding:
            scooter.battery = max(scooter.battery - self._rng.choice((0, 0, 1, 2, 12)), 1)

    def _partition(self, time: int) -> int:
        found: int = self._rng.choices(range(PARTITIONS), _SHARES)[0]
        return found if found or time % _HOUR not in _IDLE else self._rng.randrange(1, PARTITIONS)

    def _track(self, scooter: _Scooter, time: int, partition: int) -> ScooterTrack:
        return ScooterTrack(
            time, scooter.device, scooter.rider, scooter.battery, scooter.lat, scooter.lon, partition, late=False
        )

    def _send(self, what: ScooterTrack | LockEvent, partition: int, later: int = 0) -> None:
        self._put(what.time + _BEHIND[partition] + later + self._rng.randrange(DISORDER_US), what)

    def _put(self, arrival: int, what: ScooterTrack | LockEvent) -> None:
        heapq.heappush(self._sent, (arrival, self._drawn, what))
        self._drawn += 1
