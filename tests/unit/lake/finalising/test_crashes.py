"""Whoever dies behind a durable step is followed by one who comes to the same, and tells every edition."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from include.errors import Transient
from include.lake.finalising.mark import acknowledge
from include.lake.finalising.marker import marker_key
from include.lake.finalising.report import TopicReport, together
from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo
from tests.unit.lake.finalising.dates_world import HOUR_MS, NOON, DatesWorld

ELEVEN = "dt=2024-05-01/hr=11"


class Crash(Exception):
    """The process is gone."""


class Dying:
    """A store whose user dies behind, or in front of, its n-th write."""

    def __init__(self, store: MemoryStore, after: int, *, before: bool = False) -> None:
        self._store, self._left, self._before = store, after, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        found = self._died(lambda: self._store.put(key, body, metadata=metadata))
        assert isinstance(found, ObjectInfo)
        return found

    def put_if_absent(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo | None:
        return self._died(lambda: self._store.put_if_absent(key, body, metadata=metadata))

    def put_if_match(
        self, key: str, body: bytes, etag: str, *, metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo | None:
        return self._died(lambda: self._store.put_if_match(key, body, etag, metadata=metadata))

    def _died(self, write: Any) -> Any:
        self._left -= 1
        if self._left == 0 and self._before:
            raise Crash
        answer = write()
        if self._left == 0:
            raise Crash
        return answer


def late_world(folder: Path) -> DatesWorld:
    """One hour is to be finished, another one, told before, got late records."""
    world = DatesWorld(folder)
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)
    assert world.told() == [f"{ELEVEN} finished 1"]
    world.at(NOON - 5, NOON, kafka_ms=NOON + HOUR_MS)
    world.set_ms(NOON + 2 * HOUR_MS)
    return world


def ran(world: DatesWorld, store: Any) -> list[TopicReport]:
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
        for report in ran(world, Dying(world.store, step, before=before)):
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

    class Meanwhile(Dying):
        def put_if_match(self, key: str, *given: Any, **named: Any) -> Any:
            if key.endswith("_SUCCESS") and not inner:
                inner.append(world.tell())
            return world.store.put_if_match(key, *given, **named)

    outer = world.tell(Meanwhile(world.store, 0))
    assert [date.edition for date in inner[0].dates] == [2, 1]
    assert outer.dates == ()
    assert [date.new for date in world.tell().dates] == [False, False]


def test_a_write_whose_answer_was_lost_is_told_by_the_next_run(tmp_path: Path) -> None:
    world = DatesWorld(tmp_path)
    world.at(NOON - 1000, NOON - 999)
    world.set_ms(NOON + HOUR_MS)

    class Deaf(Dying):
        def _died(self, write: Any) -> Any:
            write()
            raise Transient("no answer")

    with pytest.raises(Transient):
        world.tell(Deaf(world.store, 0))
    assert world.told() == [f"{ELEVEN} finished 1"]


def test_markers_lie_in_the_folder_of_the_date() -> None:
    assert marker_key("by_date", "t", ("dt=2024-05-01",), "_SUCCESS") == "by_date/t/dt=2024-05-01/_SUCCESS"
