"""How soon a live detector tells, and how fast a day of tracks is read again."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import Consumer, Producer

from include.eventtime.outputs import EVENT_TIME
from tests.bench.eventtime.place import PARTITIONS, Tracks, track
from tests.support.application_process import ApplicationProcess

__all__ = ["Live", "p99_s", "times_real"]

_RATE: Final = 5_000
_DEVICES: Final = 20_000
_GROUPS: Final = 20
_SILENT: Final = 3
_TICK_S: Final = 0.05
_WARM_S: Final = 30.0
_BOUND_US: Final = 5_000_000
_DAY_RATE: Final = 100
_DAY_DEVICES: Final = 1_000


@dataclass(frozen=True)
class Live:
    """Seconds from the moment at which the watermark has passed an output's time until it could be read.

    `memory`: of driver and workers at the end, in parts of what it was at the begin.
    """

    p99_s: float
    median_s: float
    outputs: int
    memory: float


def p99_s(env: Mapping[str, str], folder: Path, paced_s: float) -> Live:
    """Tracks at a steady rate, for so long behind a warm-up.

    Every device sends each four seconds; a twentieth of them in turn misses three of these, and is offline ten seconds
    after its last track. The watermark passes a time when all partitions have later tracks by the bound of disorder:
    at this rate five seconds later, to the millisecond.
    """
    tracks = Tracks(env, folder, "live", {"timeout": "10s"})
    process = tracks.process()
    try:
        seen, over = list[tuple[int, float]](), threading.Event()
        reader = threading.Thread(target=_read, args=(tracks, seen, over))
        reader.start()
        begun_s = time.time()
        memory = _send(tracks, process, begun_s, begun_s + _WARM_S + paced_s)
        time.sleep(8)
        over.set()
        reader.join()
    finally:
        process.kill()
        tracks.close()
    first, last = (begun_s + _WARM_S) * 1e6, (begun_s + _WARM_S + paced_s) * 1e6 - _BOUND_US
    took = sorted(at_s - (time_us + _BOUND_US) / 1e6 for time_us, at_s in seen if first <= time_us < last)
    if len(took) < 100 * paced_s:
        raise SystemExit(f"{len(took)} outputs came out within {paced_s:.0f} s: {process.tail()[-500:]}")
    return Live(took[len(took) * 99 // 100], took[len(took) // 2], len(took), memory)


def _send(tracks: Tracks, process: ApplicationProcess, begun_s: float, until_s: float) -> float:
    """Send tracks of now; how much the memory of driver and workers grew behind the warm-up."""
    producer = Producer({"bootstrap.servers": tracks.kafka, "linger.ms": 5, "partitioner": "random"})
    number, sent, memory_mb = 0, 0, 0.0
    while (now_s := time.time()) < until_s:
        # Of `_GROUPS` groups of devices `_SILENT` send nothing.
        due = round((now_s - begun_s) * _RATE * _GROUPS / (_GROUPS - _SILENT))
        for each in range(number, due):
            device, cycle = each % _DEVICES, each // _DEVICES
            if (cycle - device) % _GROUPS >= _SILENT:
                sent += 1
                producer.produce(tracks.topic, track(device, int(time.time() * 1e6)), partition=sent % PARTITIONS)
        number = due
        producer.poll(0)
        if not memory_mb and now_s - begun_s > _WARM_S:
            memory_mb = _memory_mb(process)
        time.sleep(max(0.0, now_s + _TICK_S - time.time()))
    producer.flush(10)
    at_end_mb = _memory_mb(process)
    print(
        f"live: {sent / (until_s - begun_s):,.0f} tracks a second; {memory_mb:.0f} MB, then {at_end_mb:.0f} MB",
        file=sys.stderr,
    )
    return at_end_mb / memory_mb


def _read(tracks: Tracks, seen: list[tuple[int, float]], over: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": tracks.kafka,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([tracks.events])
    while not over.is_set():
        for message in consumer.consume(5_000, 0.05):
            now_s, headers = time.time(), dict(message.headers() or [])
            seen.append((int(headers[EVENT_TIME] or b""), now_s))
    consumer.close()


def _memory_mb(process: ApplicationProcess) -> float:
    watched = psutil.Process(process.pid)
    python = [each for each in (watched, *watched.children(recursive=True)) if each.name() != "java"]
    return sum(each.memory_full_info().pss for each in python) / 1e6


def times_real(env: Mapping[str, str], folder: Path, count: int) -> float:
    """So many tracks at 100 a second, with Kafka's timestamps as they were, found at once by a running detector."""
    tracks = Tracks(env, folder, "day")
    process = tracks.process()
    try:
        with tracks.held():
            for number, (at_us, value) in enumerate(_day(tracks.now_us + 600_000_000, count)):
                tracks.writer.append(
                    tracks.topic, None, value, partition=number % PARTITIONS, timestamp_ms=at_us // 1_000
                )
        wall_s = tracks.await_all(process)
    finally:
        process.kill()
        tracks.close()
    print(f"day: {count:,} tracks in {wall_s:.1f} s; {count / wall_s:,.0f} a second", file=sys.stderr)
    return count / _DAY_RATE / wall_s


def _day(begin_us: int, count: int) -> Iterator[tuple[int, bytes]]:
    """Devices that send every ten seconds; each is silent for an hour in fifty."""
    for number in range(count):
        at_us = begin_us + number * 1_000_000 // _DAY_RATE
        device, hour = number % _DAY_DEVICES, number // (_DAY_RATE * 3_600)
        if (device + hour) % 50 == 0:
            device += _DAY_DEVICES
        yield at_us, track(device, at_us)
