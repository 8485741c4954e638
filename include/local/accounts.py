"""The account under which servers run where root starts them.

As an ordinary user there is nothing to do: servers run as that user. As root they run under `$LYREBIRD_ACCOUNT`, else
under `lyrebird`, a system account without login that `up` makes: all of the stack (rootless.py), or what can (owners.py
names the exceptions).
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from include.errors import Terminal

__all__ = [
    "Account",
    "Wanted",
    "barrier",
    "close",
    "closed",
    "expected",
    "find",
    "give",
    "groups",
    "make_way",
    "reaches",
    "read_given",
    "unprivileged",
]

_ASKS: Final = 'while [ $# -gt 2 ]; do test "-$1" "$2" || { echo "$3"; exit; }; shift 3; done; echo all'
_VERBS: Final = {"r": "read", "w": "write", "x": "enter or run"}

Wanted = tuple[Path, str]
"""A file or folder, and how it is to be reached: r, w and x, as `test` has them."""


@dataclass(frozen=True)
class Account:
    """A user and its main group."""

    name: str
    uid: int
    gid: int


def unprivileged() -> Account | None:
    """The account for servers; None when this process is not root. Makes `lyrebird` once."""
    if os.geteuid() != 0:
        return None
    name = expected()
    entry = find(name)
    if entry is None:
        if "LYREBIRD_ACCOUNT" in os.environ:
            raise Terminal(
                f"LYREBIRD_ACCOUNT is {name!r}, but there is no such user",
                fix="Name an existing unprivileged user, or unset it and `lyrebird` is made.",
            )
        useradd = shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if useradd is None:
            raise Terminal(
                "root may not run the servers and there is no useradd to make an account",
                fix="Set LYREBIRD_ACCOUNT to an existing unprivileged user.",
            )
        made = subprocess.run(  # noqa: S603 - fixed words
            [useradd, "--system", "--user-group", "--no-create-home", "--shell", "/bin/false", name],
            capture_output=True,
            text=True,
            check=False,
        )
        entry = find(name)
        if entry is None:
            raise Terminal(
                f"useradd could not make the account {name!r}: {made.stderr.strip()}",
                fix="Set LYREBIRD_ACCOUNT to an existing unprivileged user.",
            )
    if entry.pw_uid == 0:
        raise Terminal("LYREBIRD_ACCOUNT names root", fix="Name an unprivileged user.")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def expected() -> str:
    """The name of the account under which servers run where root starts them, whether or not there is one yet."""
    return os.environ.get("LYREBIRD_ACCOUNT", "lyrebird")


def reaches(path: Path, account: Account | None) -> bool:
    """Whether `account` may pass through every existing folder on the way to `path` and read it (None: always)."""
    return barrier(path, account) is None


def barrier(path: Path, account: Account | None) -> Path | None:
    """The first folder or file on the way to `path`, links followed, that keeps `account` out; None: there is none."""
    if account is None:
        return None
    for way in (path.absolute(), path.resolve()):
        for step in (*reversed(way.parents), way):
            if step.exists() and not _allowed(step.stat(), account):
                return step
    return None


def closed(account: Account, wanted: Iterable[Wanted]) -> str:
    """The first of `wanted` that `account` cannot reach, as text; empty when there is none.

    The kernel is asked, by a process of the account: it knows of groups, access lists and read-only disks. Raises
    OSError where root may not change to the account.
    """
    questions: dict[tuple[str, str], str] = {}
    for path, modes in wanted:
        for step in (*reversed(path.parents), *reversed(path.resolve().parents)):
            questions.setdefault(("x", str(step)), f"cannot enter {step}, and needs {path}")
        for mode in modes:
            questions.setdefault((mode, str(path)), f"cannot {_VERBS[mode]} {path}")
    texts = list(questions.values())
    words = [word for number, asked in enumerate(questions) for word in (*asked, str(number))]
    said = subprocess.run(  # noqa: S603 - fixed words and paths
        ["/bin/sh", "-c", _ASKS, "sh", *words],
        cwd="/",
        env={},
        user=account.uid,
        group=account.gid,
        extra_groups=groups(account),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()
    return "" if said == "all" else texts[int(said)]


def groups(account: Account) -> list[int]:
    """Its main group, and those that list it."""
    return os.getgrouplist(account.name, account.gid) if find(account.name) else [account.gid]


def _allowed(status: os.stat_result, account: Account) -> bool:
    """Whether the mode lets `account` pass through a folder, or read a file."""
    bit = 0o1 if stat.S_ISDIR(status.st_mode) else 0o4
    if status.st_uid == account.uid:
        bit <<= 6
    elif status.st_gid == account.gid:
        bit <<= 3
    return bool(status.st_mode & bit)


def make_way(folder: Path) -> None:
    """Make `folder` and what is missing above it; others pass through them, but do not look.

    Between the making of a folder and its opening the account is kept out: not for several threads at once.
    """
    for step in [step for step in (*reversed(folder.parents), folder) if not step.exists()]:
        step.mkdir()
        step.chmod(0o711)  # whatever the umask


def give(folder: Path, account: Account | None) -> None:
    """Make `folder` and give it, with all in it, to `account`; its own mode becomes 700.

    Only the way to `folder` has to be the caller's. A process of `account` that changes what is below meanwhile leads
    to no file elsewhere: not by a link in place of a folder, nor by another name of somebody's file, which is left out.
    """
    make_way(folder.parent)
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fchmod(descriptor, 0o700)
        if account is None:
            return
        for _, folders, files, holder in os.fwalk(dir_fd=descriptor):
            for name in (*folders, *files):
                with contextlib.suppress(FileNotFoundError):
                    _give(name, holder, account)
        # The last: what is another's by its top is that one's whole.
        if os.fstat(descriptor).st_uid != account.uid:
            os.fchown(descriptor, account.uid, account.gid)
    finally:
        os.close(descriptor)


def _give(name: str, holder: int, account: Account) -> None:
    status = os.stat(name, dir_fd=holder, follow_symlinks=False)
    if status.st_uid != account.uid and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1):
        os.chown(name, account.uid, account.gid, dir_fd=holder, follow_symlinks=False)


def read_given(path: Path) -> str:
    """The text of a file in a folder that was given away; OSError where its account has put a link in its place."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
        return file.read()


def close(state: Path, account: Account | None) -> None:
    """Let nobody else into the folders of `state`. `account` may pass through `state` itself, to those that it owns."""
    state.chmod(0o711 if account else 0o700)
    for child in state.iterdir():
        if child.is_dir() and not child.is_symlink():
            child.chmod(0o700)


def find(name: str) -> pwd.struct_passwd | None:
    """The password entry of a user; None when there is none."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
