"""What may happen to a topic that is kept by date; dates are told and listed as if all was read each time."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from hypothesis import strategies as st

from include.errors import SettingsError, Terminal
from include.lake.backfill.promotion import promote
from include.lake.finalising.mark import acknowledge
from include.lake.finalising.report import together
from include.lake.forgetting import forget, plan_forgetting
from include.lake.inspect.listing import Dates, list_topic
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey
from include.store.object_store import StoredObject
from tests.support.lake.backfill_harness import asked, days
from tests.support.lake.dates.full_scan import listed_fully, planned_fully
from tests.support.lake.dates.harness import DAY_MS, HOUR_MS, DatesHarness, hourly
from tests.support.lake.dying_store import Crash, DyingStore

__all__ = ["ACTIONS", "DONE", "happens"]

ACTIONS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 1), st.integers(0, 3)),
    st.tuples(st.just("send old"), st.integers(0, 1), st.integers(0, 3)),
    st.tuples(st.just("send no json"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("store"), st.just(0), st.just(0)),
    st.tuples(st.just("wait"), st.integers(0, 1), st.integers(0, 3)),
    st.tuples(st.just("run"), st.just(0), st.just(0)),
    st.tuples(st.just("run"), st.just(0), st.just(0)),
    st.tuples(st.just("crash"), st.integers(0, 1), st.integers(1, 6)),
    st.tuples(st.just("forget"), st.just(0), st.integers(0, 3)),
    st.tuples(st.just("upgrade"), st.just(0), st.just(0)),
    st.tuples(st.just("backfill"), st.just(0), st.integers(0, 3)),
    st.tuples(st.just("summarise"), st.just(0), st.just(0)),
    st.tuples(st.just("lose"), st.integers(0, 1), st.integers(0, 9)),
    st.tuples(st.just("set back"), st.just(0), st.just(0)),
)
DONE: Counter[str] = Counter()


class Happening:
    """A topic of which things happen; what was kept once may come back."""

    def __init__(self, folder: Path) -> None:
        right = hourly(2, "made", from_offsets={0: 10**6, 1: 10**6})
        self.world = DatesHarness(folder, hourly(zone="Europe/Berlin"), right)
        self.revision = 1
        self.old: StoredObject | None = None

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_us() // 1000

    def index(self) -> list[str]:
        return [info.key for info in self.world.store.list("by_date/_chain/events~") if "/index/" in info.key]

    def act(self, action: str, one: int, other: int) -> None:
        world = self.world
        if action == "send":
            world.at(*[self.now_ms - other * HOUR_MS] * (1 + one), partition=one, stored=False)
        elif action == "send old":
            world.at(self.now_ms - other * DAY_MS, partition=one, stored=False)
        elif action == "send no json":
            world.send("events", [b"none"], one)
        elif action == "store":
            world.stored_now()
        elif action == "wait":
            world.set_ms(self.now_ms + other * (DAY_MS if one else HOUR_MS))
        elif action == "run":
            self.run()
        elif action == "crash":
            self.crash(other, before=bool(one))
        elif action == "forget":
            day = dt.datetime.fromtimestamp(self.now_ms / 1000, dt.UTC).date() - dt.timedelta(days=other - 1)
            plan = plan_forgetting(world.store, world.topic_key(), day)
            DONE["forgotten"] += not plan.nothing
            forget(world.store, world.store, plan)
        elif action == "upgrade":
            self.revision += 1
            world.stored_now()
            world.declare(world.group.model_copy(update={"revision": self.revision}))
        elif action == "backfill":
            self.backfill(dt.datetime.fromtimestamp(self.now_ms / 1000, dt.UTC).date() - dt.timedelta(days=other))
        elif action == "summarise":
            for partition in (0, 1):
                for generation in {each.generation for each in world.pointer().entries}:
                    Chain(world.store, ChainKey(world.topic_key(), generation, partition)).summarise()
        elif action == "lose" and (keys := self.index()):
            key = keys[other % len(keys)]
            found = world.store.get(key)
            assert found is not None
            if one:
                world.store.put(key, found.body[: len(found.body) // 2])
            else:
                world.store.delete(key)
        elif action == "set back":
            states = [found for key in self.index() if key.endswith("/state") and (found := world.store.get(key))]
            if self.old is not None:
                world.store.put(self.old.info.key, self.old.body)
            self.old = states[0] if states else None

    def run(self) -> None:
        """What is done is what has to be, read fully."""
        world, wanted = self.world, planned_fully(self.world)
        dry = world.tell(dry_run=True)
        report = world.tell()
        # What was marked before a file of the index was missed is found marked then.
        assert [replace(date, new=True) for date in report.dates] == [replace(date, new=True) for date in dry.dates]
        expected = [("/".join(step.folder), step.success.edition, step.success.change) for step in wanted.steps]
        assert [(date.folder, date.edition, date.change) for date in report.dates] == expected
        assert (report.passed_ms, report.holding) == (wanted.passed_ms, wanted.holding)
        assert report.open == tuple("/".join(folder) for folder in wanted.open)
        for step in wanted.steps:
            success = world.success("/".join(step.folder))
            assert success is not None
            assert (success.digest, success.heads) == (step.success.digest, step.success.heads)
            assert not step.late or world.late("/".join(step.folder)) == step.late
        DONE.update(step.success.change for step in wanted.steps)
        acknowledge(world.store, together([report]))

    def crash(self, at: int, *, before: bool) -> None:
        store = DyingStore(self.world.store, at, before=before)
        try:
            acknowledge(store, together(self.world.reports(store)))
        except Crash:
            DONE["crash"] += 1

    def backfill(self, day: dt.date) -> None:
        self.world.stored_now()
        try:
            run = self.world.backfilled(asked(days=days(day.isoformat())))
            promote(self.world.store, run, accept=True)
            DONE["promoted"] += 1
        except (SettingsError, Terminal):
            # There is nothing of that day, or another backfill has it.
            pass

    def check_files(self) -> None:
        today = dt.datetime.fromtimestamp(self.now_ms / 1000, dt.UTC).date()
        for back in range(5):
            day = today - dt.timedelta(days=back)
            dates = Dates(day, day + dt.timedelta(days=back % 2), "Pacific/Kiritimati" if back % 2 else "UTC")
            for prefix, refused in (("by_date", False), ("by_date", True), ("raw", False)):
                found = list_topic(self.world.store, prefix, "events", dates, refused=refused)
                assert found == listed_fully(self.world, dates, refused=refused, prefix=prefix)


def happens(actions: list[tuple[str, int, int]]) -> None:
    """All of it, in parts of few commits and files, and what is there at the end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch("include.lake.protocol.chain.SUMMARY_COMMITS", 3),
        patch("include.lake.dates.reading.SUMMARY_COMMITS", 3),
        patch("include.lake.dates.reading._MOST_CUTS", 2),
        patch("include.lake.dates.reading._MOST_FILES", 3),
        patch("include.lake.dates.kept._MOST_FILES", 2),
    ):
        made = Happening(Path(folder))
        made.world.stored_now()
        for action in actions:
            made.act(*action)
        made.check_files()
        made.run()
        made.run()
        made.check_files()
