"""A fleet of scooters over any number of partitions, one of the jobs that come along, and a backup of its sources."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson

from demo.scooters.plan import PARTITIONS, FleetPlan, LockEvent, ScooterTrack
from include.clock import SystemClock
from tests.support.eventtime.job_harness import JobHarness

__all__ = ["JOBS", "FleetHarness"]

MINUTE = 60_000_000
DAY_US = 24 * 60 * MINUTE
JOBS: dict[str, dict[str, Any]] = {
    "offline": {"process": "offline.Offline", "sources": {"tracks": "device"}, "outputs": ("status", "events")},
    "battery": {"process": "battery.Battery", "sources": {"tracks": "device"}, "outputs": ("alarms",)},
    "sessions": {"process": "sessions.Sessions", "sources": {"tracks": "rider"}, "outputs": ("sessions",)},
    "moved": {
        "process": "locked.MovedWhileLocked",
        "sources": {"locks": "device", "tracks": "device"},
        "outputs": ("alarms",),
    },
}
SETTINGS: dict[str, dict[str, Any]] = {"battery": {"percent": 10, "within": "5m"}, "moved": {"metres": 100}}


class FleetHarness(JobHarness):
    """`partitions` of the tracks: as many as the plan has, they are the plan's; else tracks are spread at random."""

    def __init__(
        self, job: str, name: str, kafka: str, registry_url: str, s3: Any, folder: Path, seed: int, partitions: int
    ) -> None:
        said = JOBS[job]
        self.midnight = (SystemClock().now_us() // DAY_US - 1) * DAY_US
        self.now = self.midnight - 60 * MINUTE
        self.plan, self.draw, self.partitions = FleetPlan(seed, self.now, 100), random.Random(seed), partitions
        self.planted: set[tuple[str, int]] = set()
        sources = [
            {
                "topic": f"{name}.{source}",
                "key": key,
                "time": {"field": "at", "unit": "ms"},
                # Where tracks are spread anew, a slow partition's come behind a fast one's.
                "disorder_s": 5 if partitions == PARTITIONS else 70,
                "idle_after_s": 120,
            }
            for source, key in said["sources"].items()
        ]
        entry = {
            "process": f"include.eventtime.jobs.{said['process']}",
            "sources": sources,
            "settings": SETTINGS.get(job, {}),
            "outputs": {output: {"topic": f"{name}.{output}"} for output in said["outputs"]},
            "buckets": 4,
        }
        group = {
            "kind": "backup",
            "application": "lake",
            "topics": [source["topic"] for source in sources],
            "prefix": "raw",
            "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
        }
        more = {"lake": {"raw": group}, "applications": {"lake": {"entry": "spark_apps/lake_backup.py"}}}
        count = {f"{name}.tracks": partitions, f"{name}.locks": 2}
        super().__init__(name, kafka, registry_url, s3, folder, count, entry, more)

    def send(self, minutes: int) -> None:
        """So many minutes of the fleet, a transaction each."""
        for _ in range(minutes):
            self.now += MINUTE
            self.writer.begin()
            for sent in self.plan.until(self.now):
                self._append(sent)
            self.writer.commit()

    def _append(self, sent: ScooterTrack | LockEvent) -> None:
        if isinstance(sent, LockEvent):
            value = {"device": sent.device, "at": sent.time // 1_000, "locked": sent.locked}
            self.writer.append(f"{self.name}.locks", None, orjson.dumps(value), partition=self.draw.randrange(2))
            return
        track: dict[str, Any] = sent._asdict()
        late = track.pop("late")
        track["at"], partition = track.pop("time") // 1_000, track.pop("partition")
        if self.partitions != PARTITIONS:
            partition = self.draw.randrange(self.partitions)
        elif late:
            self.planted.add((sent.device, sent.time))
        self.writer.append(f"{self.name}.tracks", None, orjson.dumps(track), partition=partition)
