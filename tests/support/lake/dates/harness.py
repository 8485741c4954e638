"""A topic with two partitions, filed by the hour and the day of its messages, and the dates of it told hour by hour."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from include.lake.definition import LakeGroup
from include.lake.finalising.mark import acknowledge, finalise_groups
from include.lake.finalising.marker import LateArrivals, SuccessMarker
from include.lake.finalising.report import TopicReport, together
from include.store.object_store import ObjectStore
from tests.support.lake.backfill_harness import BackfillHarness

__all__ = ["DAY_MS", "HOUR_MS", "NOON", "DatesHarness", "hourly"]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOON = 1_714_564_800_000  # 2024-05-01T12:00Z


def hourly(number: int = 1, field: str = "at", zone: str = "UTC", by: str = "hour", **more: Any) -> dict[str, Any]:
    """A parser's version that files by the hour, or the day."""
    parser = {"format": "json", "time": {"field": [field], "unit": "ms"}, "names": [{"by": by, "zone": zone}]}
    return {"version": number, "added": f"2026-01-0{number}T00:00:00Z", "parser": parser, **more}


class DatesHarness(BackfillHarness):
    """Its clock stands at `NOON`. Messages have the time that they tell as their Kafka timestamp, unless told."""

    def __init__(self, folder: Path, *versions: dict[str, Any], lateness_s: int = 600) -> None:
        super().__init__(folder, *(versions or (hourly(),)))
        self.set_ms(NOON)
        declared = self.group.model_dump(exclude_defaults=True, mode="json")
        self.declare(LakeGroup.model_validate({**declared, "finalise": {"lateness_s": lateness_s}}))
        self.make("events", 2)

    def declare(self, declared: LakeGroup) -> None:
        self.by_date = self.partitioned(declared)

    def set_ms(self, ms: int) -> None:
        self.clock._now_us = ms * 1000

    def at(
        self,
        *times_ms: int,
        partition: int = 0,
        stored: bool = True,
        kafka_ms: int | None = None,
        topic: str = "events",
    ) -> None:
        """Messages of these times, in one cut; the clock is not moved by storing them."""
        writer = self.memory.writer("w")
        writer.begin()
        for time_ms in times_ms:
            self.numbers += 1
            value = json.dumps({"n": self.numbers, "at": time_ms, "made": time_ms + DAY_MS}).encode()
            stamp = time_ms if kafka_ms is None else kafka_ms
            writer.append(topic, b"k", value, partition=partition, timestamp_ms=stamp)
        writer.commit()
        if stored:
            self.stored_now()

    def both(self, *times_ms: int) -> None:
        """The same messages in both partitions, stored."""
        for partition in (0, 1):
            self.at(*times_ms, partition=partition, stored=False)
        self.stored_now()

    def stored_now(self) -> None:
        now_us = self.clock.now_us()
        self.store_all(self.driver, self.by_date)
        self.clock._now_us = now_us

    def tell(self, store: ObjectStore | None = None, *, dry_run: bool = False) -> TopicReport:
        """Finalise, and find one topic."""
        (found,) = self.reports(store, dry_run=dry_run)
        return found

    def reports(self, store: ObjectStore | None = None, *, dry_run: bool = False) -> list[TopicReport]:
        return list(finalise_groups(store or self.store, self, self.groups, self.clock, dry_run=dry_run))

    def told(self, store: ObjectStore | None = None) -> list[str]:
        """Finalise and acknowledge: `<folder> <change> <edition>` of all that was told."""
        report = self.tell(store)
        assert report.error == ""
        acknowledge(store or self.store, together([report]))
        return [f"{date.folder} {date.change} {date.edition}" for date in report.dates]

    def success(self, folder: str) -> SuccessMarker | None:
        key = f"by_date/events/{folder}/_SUCCESS"
        found = self.store.get(key)
        return SuccessMarker.parse(found.body, key) if found else None

    def late(self, folder: str) -> LateArrivals | None:
        key = f"by_date/events/{folder}/_LATE"
        found = self.store.get(key)
        return LateArrivals.parse(found.body, key) if found else None

    def markers(self) -> Sequence[str]:
        return [info.key for info in self.store.list("by_date/events/") if "/_" in info.key and "_quar" not in info.key]
