"""Runs root's calls of `lyrebird` as the account that a stack belongs to, so that nothing of it is root's.

| the state folder | what root calls |
|---|---|
| is another's, and so is all in it | goes on as that one |
| is not there, or root's and empty | `hand_over` gives it to the account of the servers, and goes on as that one |
| is root's, or has files of root's | goes on as root: `up` starts servers under the account, one by one (owners.py) |

So it is, too, where the account cannot do what the stack does; `why_root_stays` tells.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NoReturn

import psutil

from include.errors import Terminal
from include.local import accounts, owners, ports
from include.local.accounts import Account
from include.local.programs import resolve
from include.local.programs.java import system_java, wheel_java
from include.local.records import Records
from include.local.services import SERVICES
from include.settings.environment import PROJECT_ROOT, cache_folder, deployment_folder

__all__ = ["act_as_owner", "hand_over", "why_root_stays"]

Wanted = tuple[Path, int]
"""A file or folder, and how it is to be reached: a mode of `os.access`."""

# Of root's session; the account has none.
_SESSION: Final = ("XDG_", "SUDO_", "SSH_", "DBUS_", "MAIL", "OLDPWD")
_TEMPORARY: Final = ("TMPDIR", "TMP", "TEMP")
_NOGROUP: Final = 65_534
_UNPRIVILEGED_PORT: Final = 1024


def act_as_owner(state: Path) -> None:
    """Begin this command anew as the owner of `state`, where root calls it and the stack in it is another's.

    Raises Terminal where that one cannot run it: root would leave files there that the owner cannot use, and follow
    links that the owner has made.
    """
    if owner := _owner(state):
        _require_program(owner, state)
        _become(owner, _home(owner))


def hand_over(state: Path, say: Callable[[str], None]) -> None:
    """Begin this command, which starts a stack, anew as its owner; a new stack is the account's of the servers.

    Returns where root does not call it, and where root stays. Steps, each of which may be the last before a crash:

    1. the account, and a home for it where it has none,
    2. the state folder, empty,
    3. its owner,
    4. the command as that one.

    What was begun is gone on with by the next call: an empty folder of root's is given away then.
    """
    if os.geteuid() != 0:
        return
    asked = os.environ.get("LYREBIRD_ACCOUNT")
    owner = _owner(state)
    if owner and asked and asked != owner.name:
        raise Terminal(
            f"LYREBIRD_ACCOUNT is {asked!r}, but {state} is {owner.name}'s",
            fix=f"Unset it; or run `lyrebird down`, then `chown -hR {asked}: {state}`.",
        )
    if owner is None:
        account = accounts.unprivileged()
        if account is None:
            return
        why, fix = why_root_stays(state, account)
        if why:
            say(f"Root starts the stack: {why}. {fix}")
            return
        _give_new(state, account)
        owner = _owner(state)
        if owner is None:
            return  # another start, as root, was faster
    _require_program(owner, state)
    home = _home(owner)
    if home.parent == owners.OUTSIDE and not (home.exists() and _uid(home) == owner.uid):
        accounts.give(home, owner)
    say(f"Root's start goes on as {owner.name}, to whom {state} belongs.")
    _become(owner, home)


def why_root_stays(state: Path, account: Account) -> tuple[str, str]:
    """Why `account` cannot have the new stack in `state`, and the next step; both empty when it can."""
    if state.exists() and any(state.iterdir()):
        kept = Records(state).stack().get("data_root", str(state))
        move = "" if kept == str(state) else f"move what {kept} holds to it, "
        return (
            f"{state} holds a stack of root's",
            f"To give it to {account.name}: `lyrebird down`, {move}then `chown -hR {account.name}: {state}`.",
        )
    if closed := _closed(account, [*_program(), *_stack(state)]):
        return (
            f"{account.name} {closed}",
            f"Let {account.name} reach it, below /opt say, or set LYREBIRD_ACCOUNT to who may.",
        )
    for port in (port for row in SERVICES for port in row.ports):
        if (number := ports.chosen(port, dict(os.environ))) < _UNPRIVILEGED_PORT:
            return f"{port.variable} is {number}, where root alone may listen", "Choose one from 1024 on."
    return "", ""


def _owner(state: Path) -> Account | None:
    """Whose the stack in `state` is; None: root's, nobody's yet, or root does not ask."""
    if os.geteuid() != 0 or not state.exists():
        return None
    uid = _uid(state.resolve())
    if 0 in {uid, *(_uid(entry) for entry in state.iterdir())}:
        return None
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:  # of another machine: a folder that a container was given
        return Account(str(uid), uid, _NOGROUP)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _uid(place: Path | int) -> int:
    status = os.fstat(place) if isinstance(place, int) else place.lstat()
    return status.st_uid


def _require_program(owner: Account, state: Path) -> None:
    if closed := _closed(owner, _program()):
        raise Terminal(
            f"{state} is {owner.name}'s, who {closed}",
            fix=f"Call it from a checkout, and with a Python, that {owner.name} can read, such as one below /opt.",
        )


def _give_new(state: Path, account: Account) -> None:
    """Make `state` where it is not there, and give it to `account` if it is root's and empty."""
    accounts.make_way(state.parent)
    state.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # By its descriptor: whoever may write above it may put another folder in its place meanwhile.
        if _uid(descriptor) == 0 and not os.listdir(descriptor):
            os.fchmod(descriptor, 0o700)
            os.fchown(descriptor, account.uid, account.gid)
    finally:
        os.close(descriptor)


def _program() -> Iterator[Wanted]:
    """What each command is run by."""
    yield Path(sys.executable), os.R_OK | os.X_OK
    yield Path(os.__file__), os.R_OK
    # One of the environment's packages, and one of the checkout's files, stand for all.
    yield Path(psutil.__file__), os.R_OK
    yield PROJECT_ROOT / "include" / "__init__.py", os.R_OK


def _stack(state: Path) -> Iterator[Wanted]:
    """What servers and applications are run by, read and write."""
    for folder in ("dags", "plugins", "spark_apps", "demo"):
        yield PROJECT_ROOT / folder, os.R_OK | os.X_OK
    yield wheel_java(), os.R_OK | os.X_OK
    with contextlib.suppress(Terminal):  # there is none, which `up` refuses
        yield system_java().home / "bin" / "java", os.R_OK | os.X_OK
    deployment = deployment_folder()
    for path in (deployment, *deployment.rglob("*")):
        yield path, os.R_OK | (os.X_OK if path.is_dir() else 0)
    yield _there(state.parent), os.X_OK
    if "LYREBIRD_CACHE" in os.environ:
        cache = cache_folder()
        fetches = bool(resolve.missing(SERVICES, cache)) if os.access(cache, os.R_OK) else True
        yield _there(cache), os.R_OK | os.X_OK | (os.W_OK if fetches else 0)


def _there(path: Path) -> Path:
    """`path`, else the first folder above it that is there."""
    return next(step for step in (path, *path.parents) if step.exists())


def _closed(account: Account, wanted: Iterable[Wanted]) -> str:
    """The first of `wanted` that `account` cannot reach, as text; empty when there is none.

    The kernel is asked, by a child that has taken the account: it knows of groups, access lists and read-only disks.
    """
    all_of_it = [(path, path.resolve(), mode) for path, mode in wanted]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _take(account)
            text = next((text for each in all_of_it if (text := _refusal(*each))), "")
        except OSError as error:
            text = f"is an account that this root cannot change to ({error.strerror})"
        os.write(writer, os.fsencode(text)[:4000])
        os._exit(0)
    os.close(writer)
    with open(reader, encoding=sys.getfilesystemencoding(), errors="surrogateescape") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def _refusal(path: Path, real: Path, mode: int) -> str:
    if os.access(path, mode):
        return ""
    for step in (*reversed(path.parents), *reversed(real.parents)):
        if not os.access(step, os.X_OK):
            return f"cannot enter {step}, and needs {path}"
    return f"cannot {'write' if mode & os.W_OK else 'read'} {path}"


def _take(account: Account) -> None:
    known = accounts.find(account.name)
    os.setgroups(os.getgrouplist(account.name, account.gid) if known else [account.gid])
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)


def _home(account: Account) -> Path:
    """Its own, else one beside the files of servers: programs are downloaded into its cache."""
    entry = accounts.find(account.name)
    if entry is not None and os.path.isdir(entry.pw_dir) and _uid(Path(entry.pw_dir).resolve()) == account.uid:
        return Path(entry.pw_dir)
    return owners.OUTSIDE / f"home-{account.uid}"


def _become(account: Account, home: Path) -> NoReturn:
    """Begin this process anew as `account`; it keeps root's environment, terminal and working folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_SESSION)}
    environment |= {"HOME": str(home), "USER": account.name, "LOGNAME": account.name}
    for name in _TEMPORARY:
        if name in environment and _closed(account, [(Path(environment[name]), os.W_OK | os.X_OK)]):
            del environment[name]
    sys.stdout.flush()
    sys.stderr.flush()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    _take(account)
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - this very command
