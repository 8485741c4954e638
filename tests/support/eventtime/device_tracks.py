"""Tracks of devices over several partitions, and the offline detector that reads them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson

from include.clock import SystemClock
from tests.support.eventtime.job_harness import JobHarness

__all__ = ["DeviceTracksHarness"]

SECOND = 1_000_000
DAY_US = 86_400 * SECOND
PARTITIONS = 4
DISORDER_S = 5
TIMEOUT_S = 60


class DeviceTracksHarness(JobHarness):
    """A topic of tracks under a unique name, of devices that are silent at times; `now` is the time of its events."""

    def __init__(self, name: str, kafka: str, registry_url: str, s3: Any, folder: Path, seed: int = 7) -> None:
        self.draw, self.tracks = random.Random(seed), f"{name}.tracks"
        self.midnight = (SystemClock().now_us() // DAY_US - 1) * DAY_US
        # Ten minutes before a midnight that is past.
        self.now = self.midnight - 600 * SECOND
        self.planted_late = 0
        source = {
            "topic": self.tracks,
            "key": "device",
            "time": {"field": "at", "unit": "us"},
            "disorder_s": DISORDER_S,
            "idle_after_s": 20,
        }
        job = {
            "process": "include.eventtime.jobs.offline.Offline",
            "sources": [source],
            "settings": {"timeout": f"{TIMEOUT_S}s"},
            "outputs": {
                "status": {"topic": f"{name}.status", "compacted": True},
                "events": {"topic": f"{name}.events"},
            },
            "buckets": 4,
        }
        super().__init__(name, kafka, registry_url, s3, folder, {self.tracks: PARTITIONS}, job)

    def send(self, seconds: int, partitions: tuple[int, ...] = tuple(range(PARTITIONS))) -> None:
        """So many seconds of tracks: five a second, some out of order, now and then one that is late."""
        self.writer.begin()
        for _ in range(seconds):
            self.now += SECOND
            for _ in range(5):
                # Each device is silent for every third two minutes of its own.
                device = self.draw.randrange(12)
                if (self.now // SECOND // 120 + device) % 3 == 0:
                    continue
                early = self.draw.randrange(DISORDER_S * SECOND)
                if self.draw.random() < 0.01:
                    early, self.planted_late = 10 * DISORDER_S * SECOND, self.planted_late + 1
                value = orjson.dumps({"device": f"s{device}", "at": self.now - early, "battery": 50})
                self.writer.append(self.tracks, None, value, partition=self.draw.choice(partitions))
        self.writer.commit()
