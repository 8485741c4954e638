"""Local files of a task go with it, however its process ends."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from include.store.task_folder import PREFIX, sweep, task_folder

_HOLDS = """
import sys, time
from pathlib import Path
from include.store.task_folder import task_folder
with task_folder(Path(sys.argv[1])) as folder:
    (folder / "0").write_bytes(b"much")
    print(folder, flush=True)
    time.sleep(60)
"""


def test_a_folder_is_empty_and_goes_with_its_task(tmp_path: Path) -> None:
    with task_folder(tmp_path) as folder:
        assert list(folder.iterdir()) == []
        (folder / "0").write_bytes(b"much")
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_folder_goes_with_a_task_that_fails(tmp_path: Path) -> None:
    def fails() -> None:
        with task_folder(tmp_path) as folder:
            (folder / "0").write_bytes(b"much")
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        fails()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_swept_and_what_lives_is_not(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            theirs = Path(process.stdout.readline().strip())
            with task_folder(tmp_path) as ours:
                assert sweep(tmp_path) == []
                assert (theirs / "0").read_bytes() == b"much"
                process.send_signal(signal.SIGKILL)
                process.wait()
                assert sweep(tmp_path) == [theirs]
                assert ours.is_dir()
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == []


def test_only_folders_of_tasks_are_swept(tmp_path: Path) -> None:
    (tmp_path / "lyrebird-lake-other").mkdir()
    (tmp_path / f"{PREFIX}file").write_text("no folder")
    assert sweep(tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_was_swept_before_it_could_be_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    flock = fcntl.flock

    def swept_first(lock: int, how: int) -> None:
        made.append(lock)
        if len(made) == 1:
            Path(f"/proc/self/fd/{lock}").resolve().rmdir()
        flock(lock, how)

    monkeypatch.setattr(fcntl, "flock", swept_first)
    with task_folder(tmp_path) as folder:
        assert folder.is_dir()
    assert len(made) == 2
    assert not os.listdir(tmp_path)


def test_a_folder_that_was_swept_before_it_could_be_opened_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    mkdtemp = tempfile.mkdtemp

    def swept_first(prefix: str, dir: Path) -> str:
        made.append(mkdtemp(prefix=prefix, dir=dir))
        if len(made) == 1:
            assert sweep(tmp_path) == [Path(made[0])]
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_first)
    with task_folder(tmp_path) as folder:
        assert str(folder) == made[1]
    assert not os.listdir(tmp_path)


def test_a_place_that_has_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), task_folder(tmp_path / "gone"):
        pass
