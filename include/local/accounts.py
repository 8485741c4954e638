"""The account under which servers run that refuse root.

As an ordinary user there is nothing to do: servers run as that user. As root, MariaDB and Elasticsearch run under
`$LYREBIRD_ACCOUNT`, else under `lyrebird`, a system account without login that `up` makes.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from include.errors import Terminal

__all__ = ["Account", "close", "find", "give", "reaches", "unprivileged"]


@dataclass(frozen=True)
class Account:
    """A user and its main group."""

    name: str
    uid: int
    gid: int


def unprivileged() -> Account | None:
    """The account for servers that refuse root; None when this process is not root. Makes `lyrebird` once."""
    if os.geteuid() != 0:
        return None
    name = os.environ.get("LYREBIRD_ACCOUNT", "lyrebird")
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
                "root may not run Elasticsearch and there is no useradd to make an account",
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


def reaches(path: Path, account: Account | None) -> bool:
    """Whether `account` may pass through every existing folder on the way to `path` (None: always)."""
    if account is None:
        return True
    for folder in [path.resolve(), *path.resolve().parents]:
        if not folder.exists():
            continue
        mode = folder.stat()
        if mode.st_uid == account.uid:
            allowed = bool(mode.st_mode & 0o100)
        elif mode.st_gid == account.gid:
            allowed = bool(mode.st_mode & 0o010)
        else:
            allowed = bool(mode.st_mode & 0o001)
        if folder.is_dir() and not allowed:
            return False
    return True


def give(folder: Path, account: Account | None) -> None:
    """Make `folder` and give it, with all in it, to `account`; its own mode becomes 700."""
    for parent in [parent for parent in reversed(folder.parents) if not parent.exists()]:
        parent.mkdir()
        parent.chmod(0o711)  # whatever the umask: the account must pass
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
    if account is None:
        return
    for path in [folder, *folder.rglob("*")]:
        if path.lstat().st_uid != account.uid:
            os.chown(path, account.uid, account.gid, follow_symlinks=False)


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
