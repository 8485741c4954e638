"""Decides which account runs each server of the local stack where root starts it, and why one stays with root.

Each server of the account's owns its own folder and nothing else. One that has to stay with root is told by `up` and
`doctor`, with its next step.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from include.errors import Terminal
from include.local import accounts
from include.local.accounts import Account
from include.local.programs.java import system_java, wheel_java
from include.local.services import PipPackage, Service
from include.settings.environment import PROJECT_ROOT

__all__ = ["OUTSIDE", "Owner", "data_root", "owner"]

OUTSIDE = Path("/var/lib/lyrebird")
"""Holds what belongs to accounts that cannot pass to the state folder, or have no home."""


@dataclass(frozen=True)
class Owner:
    """The folder of a server's files and the account that it belongs to; None: whoever starts the stack.

    `why` and `fix` are set where that is root although there is an account: the reason and the next step.
    """

    folder: Path
    account: Account | None = None
    why: str = ""
    fix: str = ""


def data_root(state: Path, account: Account | None, kept: str | None) -> Path:
    """The state folder, or, where `account` cannot pass (a checkout in root's home), one under /var/lib.

    `kept`: the one of the last start. One under /var/lib stays while it is there: neither a checkout that is moved, nor
    a folder that is opened, nor another account loses the data in it.
    """
    if kept and Path(kept).parent == OUTSIDE and os.path.isdir(kept):
        return Path(kept)
    if accounts.reaches(_way(state), account):
        return state
    mark = sha256(str(state).encode()).hexdigest()[:12]
    return OUTSIDE / mark


def _way(state: Path) -> Path:
    # The state folder itself is opened to the account by whoever starts the stack.
    return state.resolve().parent


def owner(row: Service, account: Account | None, state: Path, root: Path) -> Owner:
    """Who runs `row`, and in which folder: the one that it has; else one below `root` (of `data_root`) for `account`.

    Raises Terminal, rather than that a server begins anew, where there are files in both, or the caller is not root
    and they lie below `root`. And where the account cannot run a server that must not run as root: because it refuses
    root, or because its files are another's by now, in which root must not follow what that one has put there.
    """
    here, given = state / row.name, root / row.name
    held = [folder for folder in dict.fromkeys((here, given)) if os.path.exists(folder)]
    if len(held) > 1:
        raise Terminal(
            f"{row.name} has files in {here} and in {given}", fix="Move those that you do not want elsewhere."
        )
    if account is None:
        if held and held != [here]:
            raise Terminal(f"{row.name} has its files in {given}, from a start by root", fix=f"Move them to {here}.")
        return Owner(here)
    folder = held[0] if held else given
    why, fix = _obstacle(row, account, folder, state, given)
    if not why:
        return Owner(folder, account)
    if row.refuses_root or (not row.runs_as_caller and any(folder.lstat().st_uid != os.geteuid() for folder in held)):
        raise Terminal(f"{row.name} has to run as {account.name!r}, but {why}", fix=fix)
    return Owner(held[0] if held else here, None, why, fix)


def _obstacle(row: Service, account: Account, folder: Path, state: Path, given: Path) -> tuple[str, str]:
    """Why `account` cannot run `row` in `folder`, and the next step; empty when it can."""
    if row.runs_as_caller:
        return (
            "it writes the state folder, which is root's",
            "See docs/production.md, or start a stack as an ordinary user.",
        )
    for path in _needs(row):
        barrier = accounts.barrier(path, account)
        if barrier is not None:
            move = f"Move {_what(row)} to where every user may read, such as /opt,"
            return (
                f"{account.name} cannot enter {barrier}, and it needs {path}",
                f"{move} or set LYREBIRD_ACCOUNT to who may; {row.name}'s files become that account's.",
            )
    inside = folder.parent == state
    barrier = accounts.barrier(_way(state) if inside else folder.parent, account)
    if barrier is None:
        return "", ""
    if not inside:
        return f"{account.name} cannot enter {barrier}, and its files lie there", f"Run: chmod o+x {barrier}"
    ready = shlex.join(["install", "-d", "-m", "711", str(OUTSIDE), str(given.parent)])
    return (
        f"its files lie in {folder}, which {account.name} cannot enter",
        f"Run `lyrebird down`, then: {ready} && {shlex.join(['mv', '-T', str(folder), str(given)])}",
    )


def _what(row: Service) -> str:
    if isinstance(row.artefact, PipPackage):
        return "the checkout with its .venv and Python"
    return "that Java, or name another by JAVA_HOME," if row.java == "system" else "the checkout with its .venv"


def _needs(row: Service) -> Iterator[Path]:
    """What a process of `row` reads beside its own folder and the cache."""
    if row.java:
        home = system_java().home if row.java == "system" else wheel_java().parent.parent
        yield home / "bin" / "java"
    if isinstance(row.artefact, PipPackage):
        # The program, the standard library, the environment, the project.
        yield from (Path(sys.executable), Path(os.__file__), PROJECT_ROOT / "include" / "__init__.py")
        found = importlib.util.find_spec(row.artefact.name)
        if found is not None and found.origin is not None:
            yield Path(found.origin)
