"""Whoever dies behind a durable step is followed by one who comes to the same, and tells every edition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from include.errors import Transient
from include.lake.finalising.mark import acknowledge
from include.lake.finalising.marker import marker_key
from include.lake.finalising.report import TopicReport, together
from tests.support.lake.dates.harness import HOUR_MS, NOON, DatesHarness
from tests.support.lake.dying_store import Crash, DyingStore

ELEVEN = "dt=2024-05-01/hr=11"


def late_world(folder: Path) -> DatesHarness:
    """One hour is to be finished, another one, told before, got late records."""
    world = DatesHarness(folder)
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    assert world.told() == [f"{ELEVEN} finished 1"]
    world.at(NOON - 5, NOON, kafka_ms=NOON + HOUR_MS)
    world.set_ms(NOON + 2 * HOUR_MS)
    return world


def ran(world: DatesHarness, store: Any) -> list[TopicReport]:
    """All that the DAG does, with the events that it makes."""
    report = world.tell(store)
    acknowledge(store, together([report]))
    return [report]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("step", range(1, 10))
def test_after_a_crash_at_any_write_the_next_run_comes_to_the_same(tmp_path: Path, step: int, before: bool) -> None:
    clean, world = late_world(tmp_path / "clean"), late_world(tmp_path / "crashed")
    (expected,) = ran(clean, clean.store)
    told: set[tuple[str, int]] = set()
    try:
        for report in ran(world, DyingStore(world.store, step, before=before)):
            told |= {(date.folder, date.edition) for date in report.dates}
    except Crash:
        assert step <= 7
    else:
        assert step > 7
    (again,) = ran(world, world.store)
    told |= {(date.folder, date.edition) for date in again.dates}
    marked = {(date.folder, date.edition) for date in expected.dates}
    if step <= 5:
        # Nothing was told: two writes of the index, `_LATE` and two `_SUCCESS` come before that.
        assert told == marked
    assert told <= marked
    assert world.markers() == clean.markers()
    for folder in (ELEVEN, "dt=2024-05-01/hr=12"):
        mine, other = world.success(folder), clean.success(folder)
        assert mine is not None
        assert other is not None
        assert (mine.edition, mine.records, mine.announced) == (other.edition, other.records, True)
    assert world.told() == []


def test_of_two_who_finalise_at_once_one_marks_and_tells(tmp_path: Path) -> None:
    world = late_world(tmp_path)
    inner: list[TopicReport] = []

    class Meanwhile(DyingStore):
        def put_if_match(self, key: str, *given: Any, **named: Any) -> Any:
            if key.endswith("_SUCCESS") and not inner:
                inner.append(world.tell())
            return world.store.put_if_match(key, *given, **named)

    outer = world.tell(Meanwhile(world.store, 0))
    assert [date.edition for date in inner[0].dates] == [2, 1]
    assert outer.dates == ()
    assert [date.new for date in world.tell().dates] == [False, False]


def test_a_write_whose_answer_was_lost_is_told_by_the_next_run(tmp_path: Path) -> None:
    world = DatesHarness(tmp_path)
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)

    class Deaf(DyingStore):
        def _died(self, write: Any) -> Any:
            write()
            raise Transient("no answer")

    with pytest.raises(Transient):
        world.tell(Deaf(world.store, 0))
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_markers_lie_in_the_folder_of_the_date() -> None:
    assert marker_key("by_date", "t", ("dt=2024-05-01",), "_SUCCESS") == "by_date/t/dt=2024-05-01/_SUCCESS"
