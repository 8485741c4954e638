"""Old cuts are forgotten on a real S3 server as they are in memory, and audits are clean there."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from include.audit.chain.audit import audit_chain
from include.clock import SystemClock
from include.lake.forgetting import forget, plan_forgetting
from include.lake.writing.task import patience
from include.store.object_store import ObjectStore
from include.store.s3 import S3Store
from tests.support.lake.backfill_harness import BackfillHarness, version


def keys(store: ObjectStore) -> set[str]:
    return {info.key for info in store.list("") if not info.key.startswith("_probe")}


def test_a_real_store_keeps_what_one_in_memory_keeps(
    tmp_path: Path, s3: Any, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("include.lake.protocol.chain.SUMMARY_COMMITS", 3)
    world = BackfillHarness(tmp_path, version(1, "made"))
    world.make("events", 2)
    for day in range(8):
        for partition in (0, 1):
            world.events("events", 3, day, partition)
        world.store_all()
    # It writes summaries.
    assert not audit_chain(world.store, world.groups, "events", world.clock.now_us()).findings
    world.store.put("by_date/events/dt=2024-05-02/_SUCCESS", b"{}")
    real = S3Store(s3.endpoint, unique, s3.access_key, s3.secret_key)
    real.ensure_bucket()
    for info in list(world.store.list("")):
        found = world.store.get(info.key)
        assert found is not None
        real.put(info.key, found.body, metadata=found.info.metadata)
    for store in (world.store, real):
        plan = plan_forgetting(store, world.topic_key(), dt.date(2024, 5, 6))
        assert [each.cuts for each in plan.partitions] == [5, 5]
        forget(store, store, plan, pause=patience(SystemClock()))
        assert not audit_chain(store, world.groups, "events", world.clock.now_us()).findings
    assert keys(real) == keys(world.store)
    assert "by_date/events/dt=2024-05-02/_SUCCESS" not in keys(real)
    real.close()
