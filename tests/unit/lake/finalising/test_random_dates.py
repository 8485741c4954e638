"""Whatever is sent, stored, marked and crashes: who works on a date when it is told has worked on all that it has."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from include.lake.finalising.mark import acknowledge
from include.lake.finalising.report import asset_updates, together
from include.lake.protocol.object_key import ObjectKey
from tests.support.lake.dates.harness import HOUR_MS, NOON, DatesHarness, hourly
from tests.support.lake.dying_store import Crash, DyingStore

ACTIONS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 1), st.integers(0, 3)),
    st.tuples(st.just("store"), st.just(0), st.just(0)),
    st.tuples(st.just("wait"), st.integers(0, 1), st.integers(0, 3)),
    st.tuples(st.just("run"), st.integers(0, 1), st.integers(0, 4)),
    st.tuples(st.just("upgrade"), st.just(0), st.just(0)),
)


class Worker:
    """Works on dates as they are told: `seen` is what each had then."""

    def __init__(self, world: DatesHarness) -> None:
        self.world = world
        self.seen: dict[str, list[bytes]] = {}

    def run(self, dies_at: int = 0, *, before: bool = False) -> None:
        """What the DAG does; `dies_at` that write (0: not)."""
        store = DyingStore(self.world.store, dies_at, before=before)
        try:
            report = together(self.world.reports(store))
            for update in asset_updates(report):
                self.seen[update.extra["folder"]] = self.lines(update.extra["folder"])
            acknowledge(store, report)
        except Crash:
            pass

    def lines(self, folder: str) -> list[bytes]:
        """All that readers read below the folder now."""
        pointer, found = self.world.pointer(), []
        for info in self.world.store.list(f"by_date/events/{folder}/"):
            if not info.key.rpartition("/")[2].startswith("_") and pointer.reads(ObjectKey.parse(info.key, "by_date")):
                stored = self.world.store.get(info.key)
                assert stored is not None
                found += stored.body.splitlines()
        return sorted(found)


@given(st.lists(ACTIONS, max_size=25))
@settings(max_examples=200, deadline=None)
def test_who_works_on_dates_as_they_are_told_has_worked_on_all_that_they_have(
    actions: list[tuple[str, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = DatesHarness(Path(folder), hourly(zone="Asia/Kathmandu"))
        worker, revision = Worker(world), 1
        for action, one, other in actions:
            now_ms = world.clock.now_us() // 1000
            if action == "send":
                world.at(now_ms - other * HOUR_MS, partition=one, stored=False)
            elif action == "store":
                world.stored_now()
            elif action == "wait":
                world.set_ms(now_ms + other * HOUR_MS)
            elif action == "run":
                worker.run(other, before=bool(one))
            else:
                revision += 1
                world.stored_now()
                world.declare(world.group.model_copy(update={"revision": revision}))
        marked = {key.removeprefix("by_date/events/").removesuffix("/_SUCCESS") for key in world.markers()}
        world.stored_now()
        worker.run()
        for name in {name for name in marked if not name.endswith("_LATE")}:
            success = world.success(name)
            assert success is not None
            assert success.announced
            assert worker.seen[name] == worker.lines(name)
            assert success.records == len(worker.lines(name))
        world.set_ms(world.clock.now_us() // 1000 + 30 * HOUR_MS)
        worker.run()
        written = sum(len(lines) for name, lines in worker.seen.items() if "/hr=" in name)
        assert written == world.numbers
        assert world.told() == []
        assert world.clock.now_us() // 1000 >= NOON
