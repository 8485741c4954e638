"""The index of dates on a real S3 server: kept from run to run, and as right there as in memory."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

from include.lake.inspect.listing import Dates, list_topic
from include.store.object_store import StoredObject
from include.store.s3 import S3Store
from tests.support.lake.dates.harness import DAY_MS, HOUR_MS, NOON, DatesHarness

MAY = Dates(dt.date(2024, 4, 20), dt.date(2024, 5, 20))


class Counting(S3Store):
    """Counts what is got, by the last part of its name."""

    got: Counter[str]

    def get(self, key: str) -> StoredObject | None:
        self.got[key.rpartition(".")[2]] += 1
        return super().get(key)


def test_dates_are_told_and_listed_from_what_a_real_store_keeps(tmp_path: Path, s3: Any, unique: str) -> None:
    world = DatesHarness(tmp_path)
    real = Counting(s3.endpoint, unique, s3.access_key, s3.secret_key)
    real.got = Counter()
    real.ensure_bucket()

    def copied() -> None:
        for info in list(world.store.list("")):
            found = world.store.get(info.key)
            assert found is not None
            real.put_if_absent(info.key, found.body, metadata=found.info.metadata)

    for hour in range(4):
        world.both(NOON + hour * HOUR_MS, NOON + hour * HOUR_MS)
    copied()
    world.set_ms(NOON + 2 * DAY_MS)
    folders = ["dt=2024-05-01", *(f"dt=2024-05-01/hr={hour}" for hour in range(12, 16))]
    assert world.told(real) == [f"{each} finished 1" for each in folders]
    assert world.told(real) == []
    assert list_topic(real, "by_date", "events", MAY) == list_topic(world.store, "by_date", "events", MAY)
    world.at(NOON - 5, kafka_ms=NOON + 2 * DAY_MS)
    copied()
    real.got.clear()
    assert world.told(real) == ["dt=2024-05-01 late 2", "dt=2024-05-01/hr=11 finished 1"]
    assert real.got["commit"] == 1
    assert len(found := list_topic(real, "by_date", "events", MAY)) == 9
    assert found == list_topic(world.store, "by_date", "events", MAY)
    real.close()
