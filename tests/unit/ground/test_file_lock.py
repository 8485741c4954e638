"""A lock file that says whether a process lives."""

from __future__ import annotations

import fcntl
from pathlib import Path

from include.file_lock import is_held


def test_it_is_held_for_as_long_as_somebody_has_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert not is_held(lock)
    assert not lock.exists()
    with lock.open("w") as holder:
        assert not is_held(lock)
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert is_held(lock)
        assert is_held(lock)
    assert not is_held(lock)


def test_asking_takes_it_from_nobody_who_comes_next(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    assert not is_held(lock)
    with lock.open() as holder:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert is_held(lock)
