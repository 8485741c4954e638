"""What root gives to the account of the servers, and what it writes among that one's files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from include.local.accounts import Account, give
from include.local.records import write_private

NOBODY = Account("nobody-here", 4_000_001, 4_000_002)


class Chown:
    """Notes what would be given away, and does not. `before` happens at the first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: set[int] = set()
        self.before = lambda: None
        monkeypatch.setattr("os.chown", self.chown)
        monkeypatch.setattr("os.fchown", self.chown)

    def chown(self, path: Any, uid: int, gid: int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        assert (uid, gid) == (NOBODY.uid, NOBODY.gid)
        if isinstance(path, int):
            self.given.add(os.fstat(path).st_ino)
            return
        self.given.add(os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks).st_ino)
        before, self.before = self.before, lambda: None
        before()


@pytest.fixture
def chown(monkeypatch: pytest.MonkeyPatch) -> Chown:
    return Chown(monkeypatch)


def test_a_folder_is_given_with_all_in_it_and_links_themselves(tmp_path: Path, chown: Chown) -> None:
    folder = tmp_path / "s3"
    paths = [folder, folder / "a", folder / "a" / "file", folder / "link"]
    paths[1].mkdir(parents=True)
    paths[2].write_text("")
    paths[3].symlink_to(tmp_path)
    give(folder, NOBODY)
    assert chown.given == {path.lstat().st_ino for path in paths}


def test_a_folder_that_becomes_a_link_while_it_is_given_leads_to_no_file_elsewhere(
    tmp_path: Path, chown: Chown
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("")
    inner = tmp_path / "s3" / "a"
    inner.mkdir(parents=True)
    (inner / "file").write_text("")

    def swap() -> None:
        inner.rename(tmp_path / "s3" / "b")
        inner.symlink_to(victim)

    chown.before = swap
    give(tmp_path / "s3", NOBODY)
    assert chown.given
    assert not chown.given & {victim.stat().st_ino, (victim / "file").stat().st_ino}


def test_another_name_of_somebody_s_file_does_not_give_it_away(tmp_path: Path, chown: Chown) -> None:
    victim = tmp_path / "victim"
    victim.write_text("")
    folder = tmp_path / "s3"
    folder.mkdir()
    (folder / "file").hardlink_to(victim)
    give(folder, NOBODY)
    assert chown.given == {folder.stat().st_ino}


def test_a_private_file_in_a_given_folder_is_not_written_where_a_link_leads(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / "config").symlink_to(victim)
    with pytest.raises(OSError, match="Not a directory"):
        write_private(tmp_path / "config" / "file", "text", given=True)
    assert list(victim.iterdir()) == []
    # A link of one's own is followed.
    write_private(tmp_path / "config" / "file", "text")
    assert (victim / "file").read_text() == "text"
    assert (victim / "file").stat().st_mode & 0o777 == 0o600
