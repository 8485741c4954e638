"""Which account runs each server of the local stack where root starts it, and why one stays with root.

Each server of the account's owns its own folder and nothing else. One that has to stay with root is told by `up` and
`doctor`, with its next step.
"""

from __future__ import annotations

import importlib.util
import os
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

__all__ = ["Owner", "data_root", "owner"]


@dataclass(frozen=True)
class Owner:
    """The folder of a server's files and the account that it belongs to; None: whoever starts the stack.

    `why` and `fix` are set where that is root although there is an account: the reason and the next step.
    """

    folder: Path
    account: Account | None = None
    why: str = ""
    fix: str = ""


def data_root(state: Path, account: Account | None) -> Path:
    """The state folder, or, where `account` cannot pass (a checkout in root's home), one under /var/lib."""
    # The state folder itself is opened to the account by whoever starts the stack.
    if accounts.reaches(state.resolve().parent, account):
        return state
    mark = sha256(str(state).encode()).hexdigest()[:12]
    return Path("/var/lib/lyrebird") / mark


def owner(row: Service, account: Account | None, state: Path, root: Path) -> Owner:
    """Who runs `row`, and where: below `root` (of `data_root`) as `account`, else in the state folder as the caller.

    Raises Terminal where the account cannot run a server that must not run as root: because it refuses root, or
    because its files are the account's by now, in which root must not follow what the account has put there.
    """
    here, given = Owner(state / row.name), Owner(root / row.name, account)
    if account is None:
        return here
    why, fix = _obstacle(row, account, here.folder, given.folder)
    if not why:
        return given
    if row.refuses_root or (given.folder.exists() and given.folder.lstat().st_uid == account.uid):
        raise Terminal(f"{row.name} has to run as {account.name!r}, but {why}", fix=fix)
    return Owner(here.folder, None, why, fix)


def _obstacle(row: Service, account: Account, here: Path, given: Path) -> tuple[str, str]:
    """Why `account` cannot run `row`, and the next step; empty when it can."""
    if row.runs_as_caller:
        return (
            "it writes the state folder and starts Spark's applications",
            "Start the stack as an ordinary user.",
        )
    for path in _needs(row):
        barrier = accounts.barrier(path, account)
        if barrier is not None:
            return (
                f"{account.name} cannot enter {barrier}, and it needs {path}",
                f"Move {_what(row)} to where every user may read, such as /opt, or set LYREBIRD_ACCOUNT to who may.",
            )
    if not row.refuses_root and here != given and here.exists():
        return (
            f"its files lie in {here}, which {account.name} cannot enter",
            f"Run `lyrebird down`, then: mkdir -p {given.parent} && mv {here} {given}",
        )
    return "", ""


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
