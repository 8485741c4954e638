"""`make bench-eventtime`: what the offline detector takes in for each CPU second, end to end, and how soon it tells.

1. Tracks in Kafka as JSON, unkeyed, of many devices over eight partitions; the application that a user would start
   (driver, JVM and workers all count) on a real log, registry and object store. The first round makes a key and a
   timer for each device; each later one has as many elements, each of another device, a little later, so that every
   state is read and written and every timer moves. Tracks are held back by an open transaction until all are written,
   so that they are found at once. Between the rounds the same job runs as Spark's own Python transformWithState with
   event-time timers, over fewer tracks of the same kind.
2. What an idle application takes.
3. Live at 5,000 tracks a second: how long after the watermark has passed its time an output can be read.
4. A part of a day at 100 tracks a second, read at once: how many times faster than it was lived.

Ends with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil

from tests.bench.eventtime.live import p99_s, times_real
from tests.bench.eventtime.peer import peer_cpu_s
from tests.bench.eventtime.place import Tracks
from tests.bench.processes import cpu_by_kind
from tests.bench.servers import halves, served
from tests.support.application_process import ApplicationProcess

_BOUND: Final = 40_000.0
_OF_PEER: Final = 10.0
_IDLE: Final = 0.15
_P99_S: Final = 3.0
_TIMES_REAL: Final = 500.0
_IDLE_S: Final = 20.0


def main() -> int:
    """Write, process, tell; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1_000_000, help="each with a timer; as many elements a round")
    parser.add_argument("--peer", type=int, default=30_000, help="devices of the peer's rounds; 0: without it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--paced", type=float, default=60.0, help="seconds of the live part; 0: without it")
    parser.add_argument("--day", type=int, default=2_000_000, help="tracks of the day's part, of 8,640,000; 0: without")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    services = ["kafka", "registry", "s3"]
    with (
        tempfile.TemporaryDirectory() as name,
        served(services, Path(name) / "stack", halves(apart=False)[0]) as env,
    ):
        figures = _measured(env, Path(name), arguments)
    missed = False
    for what, (figure, bound, floor) in figures.items():
        bad = bound is not None and (figure < bound if floor else figure > bound)
        missed |= bad
        if not arguments.json:
            wanted = "" if bound is None else f" (bound {bound:,.2f}){': missed' if bad else ''}"
            print(f"{what:64} {figure:12,.2f}{wanted}")
    if arguments.json:
        print(json.dumps({what: figure for what, (figure, _, _) in figures.items()}))
    return int(missed)


def _measured(env: Mapping[str, str], folder: Path, arguments: Any) -> dict[str, tuple[float, float | None, bool]]:
    """Name → figure, bound, whether the bound is a floor."""
    tracks = Tracks(env, folder / "bench", "bench", more={"slice_s": 86_400})
    process = tracks.process()
    try:
        rounds, peer = _rounds(tracks, process, arguments)
        idle = _idle_cores(process)
    finally:
        process.kill()
        tracks.close()
    figures: dict[str, tuple[float, float | None, bool]] = {
        "elements a CPU second": (statistics.median(rounds), _BOUND, True),
        "idle, cores": (idle, _IDLE, False),
    }
    if peer:
        figures["the same as transformWithState in Python, a CPU second"] = (statistics.median(peer), None, True)
        figures["times"] = (statistics.median(rounds) / statistics.median(peer), _OF_PEER, True)
    if arguments.paced:
        live = p99_s(env, folder / "live", arguments.paced)
        figures["5,000 a second: p99 from the watermark to a reader, s"] = (live.p99_s, _P99_S, False)
        figures["the same, median, s"] = (live.median_s, None, False)
        figures["outputs of these"] = (live.outputs, None, True)
        figures["memory of driver and workers, end to begin"] = (live.memory, None, False)
    if arguments.day:
        figures["a day at 100 a second, times faster than it was lived"] = (
            times_real(env, folder / "day", arguments.day),
            _TIMES_REAL,
            True,
        )
    return figures


def _rounds(tracks: Tracks, process: ApplicationProcess, arguments: Any) -> tuple[list[float], list[float]]:
    found: list[float] = []
    peer: list[float] = []
    for number in range(-1, arguments.rounds):
        watched = psutil.Process(process.pid)
        with tracks.held():
            tracks.write(tracks.values(arguments.devices))
            time.sleep(2)
            before = cpu_by_kind(watched)
        wall_s, after = tracks.await_all(process), cpu_by_kind(watched)
        spent = {part: after[part] - before[part] for part in after}
        rate = arguments.devices / sum(spent.values())
        told = ", ".join(f"{part} {each:.1f}" for part, each in spent.items())
        what = "first" if number < 0 else f"round {number + 1}"
        print(f"{what}: {rate:,.0f} a CPU second ({told} s; {wall_s:.1f} s)", file=sys.stderr)
        if number >= 0:
            found.append(rate)
            if arguments.peer:
                peer.append(arguments.peer / peer_cpu_s(tracks.folder / f"peer{number}", arguments.peer))
                print(f"peer: {peer[-1]:,.0f} a CPU second; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return found, peer


def _idle_cores(process: ApplicationProcess) -> float:
    watched = psutil.Process(process.pid)
    before, begun_s = cpu_by_kind(watched), time.monotonic()
    time.sleep(_IDLE_S)
    after = cpu_by_kind(watched)
    return (sum(after.values()) - sum(before.values())) / (time.monotonic() - begun_s)


if __name__ == "__main__":
    sys.exit(main())
