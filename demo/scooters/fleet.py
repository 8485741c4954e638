"""A fleet on the air: writes what the plan says to the log, an hour a minute, and beside it what it knows of itself.

| topic | what |
|---|---|
| `telemetry.tracks` | JSON: device, rider, at (ms), battery, lat, lon; without keys, four partitions |
| `telemetry.locks` | JSON: device, at (ms), locked |
| `telemetry.truth` | JSON, a line of the truth each: the fleet that begins, silences, tracks planted late, its end |
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from demo.scooters.plan import DISORDER_US, PARTITIONS, FleetPlan, LockEvent, ScooterTrack, Silence
from include.clock import Clock
from include.log import topics
from include.log.ports import LogReader, LogWriter, Record, TopicAdmin

__all__ = [
    "LOCKS",
    "TRACKS",
    "TRUTH",
    "Fleet",
    "FleetTruth",
    "begin_of",
    "make_topics",
    "on_the_air",
    "records",
    "truth_in",
]

TRACKS: Final = "telemetry.tracks"
LOCKS: Final = "telemetry.locks"
TRUTH: Final = "telemetry.truth"
SPEED: Final = 60
"""Seconds of the fleet's time in a second: an hour a minute."""
_EVERY_S: Final = 0.25
_HOUR: Final = 3_600_000_000
_DAY: Final = 24 * _HOUR


@dataclass
class FleetTruth:
    """What fleets have written of themselves.

    Attributes:
        runs: how many have begun.
        until: the time, µs, up to which all is known; None: no fleet has ended in order.
        silences: of scooters of fleets that have ended in order.
        late: (device, time) of tracks that came too late.
        cut_short: fleets that were killed: their scooters' names begin so.
    """

    runs: int = 0
    until: int | None = None
    silences: list[Silence] = field(default_factory=list)
    late: set[tuple[str, int]] = field(default_factory=set)
    cut_short: set[str] = field(default_factory=set)


def make_topics(admin: TopicAdmin) -> None:
    """Make the topics where they are missing."""
    for name, partitions in ((TRACKS, PARTITIONS), (LOCKS, 1), (TRUTH, 1)):
        admin.ensure(topics.event_spec(name, partitions))


def truth_in(reader: LogReader) -> FleetTruth:
    """What the topic of the truth says."""
    truth = FleetTruth()
    for record in records(reader, TRUTH):
        said = orjson.loads(record.value or b"{}")
        if "begin" in said:
            truth.runs += 1
            truth.cut_short.add(said["begin"])
        elif "silence" in said:
            truth.silences.append(Silence(*said["silence"]))
        elif "late" in said:
            truth.late.add(tuple(said["late"]))
        else:
            truth.until = said["until"]
            truth.cut_short.discard(said["end"])
    truth.silences = [each for each in truth.silences if _prefix(each.device) not in truth.cut_short]
    return truth


def begin_of(reader: LogReader, now_us: int) -> int:
    """When a fleet begins, µs: half an hour before the midnight before last, or where the one before it has ended."""
    newest = max((orjson.loads(record.value or b"{}")["at"] for record in records(reader, TRACKS)), default=0)
    return max((now_us // _DAY - 1) * _DAY - _HOUR // 2, newest * 1_000 + 60_000_000)


def records(reader: LogReader, topic: str) -> Iterator[Record]:
    """All that a topic holds, one partition after the other."""
    begins = reader.begin_offsets(topic)
    for partition, end in sorted(reader.end_offsets(topic).items()):
        yield from reader.read(topic, partition, begins[partition], end)


class Fleet:
    """Writes a plan; of one thread.

    Args:
        writer: of the log.
        plan: what is sent; its scooters' names begin with `prefix`.
        prefix: of this fleet alone, and ends in `-`.
        begin_us: when the plan begins.
        clock: what time it is; the fleet's own time never passes it.
    """

    def __init__(self, writer: LogWriter, plan: FleetPlan, prefix: str, begin_us: int, clock: Clock) -> None:
        self._writer, self._plan, self._prefix, self._begin = writer, plan, prefix, begin_us
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self.sent = 0

    def begin(self) -> None:
        """Say that it begins, with the first tracks."""
        self._began_s = self._clock.monotonic_s()
        self._write([{"begin": self._prefix}], self._plan.until(self._begin))

    def step(self) -> None:
        """Write what has arrived by now."""
        now = self._begin + round((self._clock.monotonic_s() - self._began_s) * SPEED * 1_000_000)
        self._write([], self._plan.until(min(now, self._clock.now_us())))

    def end(self) -> None:
        """Write what is on its way, and say that nothing follows."""
        plan = self._plan
        rest = list(plan.rest())
        known = {each.device for each in plan.silences if each.next is None}
        said: list[dict[str, Any]] = [{"silence": list(each)} for each in plan.silences]
        said += [{"silence": [device, last, None]} for device, last in plan.last.items() if device not in known]
        until = max(plan.last.values()) - DISORDER_US - 1
        self._write([*said, {"end": self._prefix, "until": until}], rest)

    def run(self, stop: threading.Event) -> None:
        """From begin to end; the end comes once `stop` is set."""
        self.begin()
        while not stop.wait(_EVERY_S):
            self.step()
        self.end()

    def _write(self, said: list[dict[str, Any]], sent: Any) -> None:
        self._writer.begin()
        for what in sent:
            self.sent += 1
            if isinstance(what, LockEvent):
                value = {"device": what.device, "at": what.time // 1_000, "locked": what.locked}
                self._writer.append(LOCKS, None, orjson.dumps(value), partition=0)
            else:
                self._writer.append(TRACKS, None, _value(what), partition=what.partition)
                if what.late:
                    said = [*said, {"late": [what.device, what.time]}]
        for each in said:
            self._writer.append(TRUTH, None, orjson.dumps(each), partition=0)
        self._writer.commit()


@contextlib.contextmanager
def on_the_air(fleet: Fleet) -> Iterator[None]:
    """Run in a thread of its own until the block ends; what stopped it before is raised then."""
    stop = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="scooters") as thread:
        work = thread.submit(fleet.run, stop)
        try:
            yield
        finally:
            stop.set()
    work.result()


def _value(track: ScooterTrack) -> bytes:
    return orjson.dumps(
        {
            "device": track.device,
            "rider": track.rider,
            "at": track.time // 1_000,
            "battery": track.battery,
            "lat": track.lat,
            "lon": track.lon,
        }
    )


def _prefix(device: str) -> str:
    return device[: device.index("-") + 1]
