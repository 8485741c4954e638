"""When a server that sleeps on after a full disk is woken."""

from __future__ import annotations

from pathlib import Path

from include.local.full_disk import DiskWatch, free_bytes, wake
from include.local.ports import free_port

FULL, ROOM = 0, 1 << 30


def test_for_the_first_five_minutes_it_is_looked_for_as_nobody_has_watched_before() -> None:
    watch = DiskWatch()
    assert [now for now in range(100, 1000) if watch.due(ROOM, now)] == list(range(100, 400, 5))


def test_where_there_is_room_again_it_is_looked_for_five_minutes_every_five_seconds() -> None:
    watch = DiskWatch()
    assert not any(watch.due(FULL, now) for now in range(100, 160))
    assert [now for now in range(160, 1000) if watch.due(ROOM, now)] == list(range(160, 459, 5))
    # It is full again.
    assert not watch.due(FULL, 2000)
    assert watch.due(ROOM, 2001)


def test_a_server_that_does_not_answer_has_none_that_sleep(tmp_path: Path) -> None:
    assert wake(free_port(set()), "x") == 0
    assert free_bytes(tmp_path) > 0
