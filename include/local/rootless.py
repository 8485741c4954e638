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
import shlex
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NoReturn

import psutil

from include.errors import Terminal
from include.local import accounts, owners, ports
from include.local.accounts import Account, Wanted
from include.local.programs import resolve
from include.local.programs.java import system_java, wheel_java
from include.local.records import Records
from include.local.services import SERVICES
from include.settings.environment import PROJECT_ROOT, cache_folder, deployment_folder

__all__ = ["act_as_owner", "cache_of", "hand_over", "why_root_stays"]

# Of root's session; the account has none.
_SESSION: Final = ("XDG_", "SUDO_", "SSH_", "DBUS_", "MAIL", "OLDPWD")
_TEMPORARY: Final = ("TMPDIR", "TMP", "TEMP")


def act_as_owner(state: Path) -> None:
    """Begin this command anew as the owner of `state`, where root calls it and the stack in it is another's.

    Raises Terminal where that one cannot run it: root would leave files there that the owner cannot use, and follow
    links that the owner has made. Returns where this root cannot become another.
    """
    owner = _owner(state)
    if owner is not None and _may_become(owner):
        _require_program(owner, state)
        _become(owner)


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
    owner = _owner(state)
    if owner is None:
        account = accounts.unprivileged()
        if account is None:
            return
        why, fix = why_root_stays(state, account)
        if not why:
            why, fix = _give_new(state.resolve(), account)
        if why:
            say(f"Root starts the stack: {why}. {fix}")
            return
        owner = account
    asked = os.environ.get("LYREBIRD_ACCOUNT")
    if asked and ((entry := accounts.find(asked)) is None or entry.pw_uid != owner.uid):
        raise Terminal(f"LYREBIRD_ACCOUNT is {asked!r}, but {state} is {owner.name}'s", fix="Unset it.")
    if not _may_become(owner):
        return
    _require_program(owner, state)
    home = _home(owner)
    if home.parent == owners.OUTSIDE and not (home.exists() and _uid(home) == owner.uid):
        accounts.give(home, owner)
    say(f"Root's start goes on as {owner.name}, to whom {state} belongs.")
    _become(owner)


def why_root_stays(state: Path, account: Account) -> tuple[str, str]:
    """Why `account` cannot have the new stack in `state`, and the next step; both empty when it can."""
    try:
        closed = accounts.closed(account, [*_program(), *_stack(state.resolve())])
    except OSError as error:
        return (
            f"this root cannot become {account.name} ({error.strerror})",
            "A container needs CAP_SETUID, CAP_SETGID and CAP_CHOWN.",
        )
    if closed:
        return (
            f"{account.name} {closed}",
            f"Let {account.name} reach it, below /opt say, or set LYREBIRD_ACCOUNT to who may.",
        )
    least = _least_port()
    for port in (port for row in SERVICES for port in row.ports):
        if (number := ports.chosen(port, dict(os.environ))) < least:
            return f"{port.variable} is {number}, where root alone may listen", f"Choose one from {least} on."
    if other := _changeable(state):
        return (
            f"others than root may change {other}",
            "Set LYREBIRD_STATE to a folder below root's own, or start the stack as their owner.",
        )
    if not state.exists():
        return "", ""
    uid = _uid(state.resolve())
    if uid != 0:
        owner = _known(uid)
        if owner is None:
            return f"{state} is of uid {uid}, which is no account here", f"Make one: `useradd --uid {uid} NAME`."
        return f"{state} is {owner.name}'s, with files of root's", _giving(state, owner.name)
    if any(True for _ in _entries(state)):
        return f"{state} holds a stack of root's", _giving(state, account.name)
    return "", ""


def cache_of(account: Account) -> Path:
    """Where programs lie that `account` runs once it has the stack."""
    return Path(os.environ.get("LYREBIRD_CACHE") or _home(account) / ".cache" / "lyrebird").absolute()


def _giving(state: Path, name: str) -> str:
    kept = Records(state).stack().get("data_root", str(state))
    move = "" if kept == str(state) else f"move what {kept} holds to {state}, "
    give = shlex.join(["chown", "-hR", f"{name}:", str(state.resolve())])
    return f"To give it to {name}: `lyrebird down`, {move}then `{give}`."


def _owner(state: Path) -> Account | None:
    """Whose the stack in `state` is; None: root's, nobody's yet, of no account, or root does not ask."""
    if os.geteuid() != 0 or not state.exists():
        return None
    uid = _uid(state.resolve())
    return None if 0 in {uid, *_entries(state)} else _known(uid)


def _known(uid: int) -> Account | None:
    """None for one of another machine, in a container say: neither Spark nor Java can start as nobody."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _entries(state: Path) -> Iterator[int]:
    """The owners of what lies in `state`; files may go meanwhile. What a disk has of its own is not counted."""
    for entry in state.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if entry.name != "lost+found":
                yield _uid(entry)


def _uid(place: Path | int) -> int:
    status = os.fstat(place) if isinstance(place, int) else place.lstat()
    return status.st_uid


def _changeable(state: Path) -> Path | None:
    """The first folder above `state`, links not followed and followed, in which others may put one in its place."""
    for way in (state.absolute(), state.resolve()):
        for step in reversed(way.parents):
            if not step.exists():
                break
            mode = step.lstat().st_mode
            open_to_others = mode & 0o022 and not mode & stat.S_ISVTX and not stat.S_ISLNK(mode)
            if open_to_others or _uid(step) != 0:
                return step
    return None


def _give_new(state: Path, account: Account) -> tuple[str, str]:
    """Make `state` where it is not there, and give it to `account`; why it is not that one's, and the next step."""
    try:
        accounts.make_way(state.parent)
        state.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if _uid(descriptor) == 0 and not set(os.listdir(descriptor)) - {"lost+found"}:
                os.fchmod(descriptor, 0o700)
                os.fchown(descriptor, account.uid, account.gid)
            given = _uid(descriptor) == account.uid
        finally:
            os.close(descriptor)
    except OSError as error:
        return f"{state} cannot be given to {account.name}: {error.strerror}", "See docs/production.md."
    return ("", "") if given else (f"another start has taken {state} for root", "Run `lyrebird down`.")


def _program() -> Iterator[Wanted]:
    """What each command is run by."""
    yield Path(sys.executable), "rx"
    # One of the standard library, of the environment's packages and of the checkout's files stand for all.
    for module in (os.__file__, psutil.__file__, PROJECT_ROOT / "include" / "__init__.py"):
        yield Path(module), "r"


def _stack(state: Path) -> Iterator[Wanted]:
    """What servers and applications are run by, read and write."""
    for folder in filter(Path.is_dir, (PROJECT_ROOT / name for name in ("dags", "plugins", "spark_apps", "demo"))):
        yield folder, "rx"
    yield wheel_java(), "rx"
    with contextlib.suppress(Terminal):  # there is none, which `up` refuses
        yield system_java().home / "bin" / "java", "rx"
    deployment = deployment_folder()
    for path in (deployment, *deployment.rglob("*")):
        yield path, "rx" if path.is_dir() else "r"
    yield _there(state.parent), "x"
    if "LYREBIRD_CACHE" in os.environ:
        cache = cache_folder()
        yield _there(cache), "rx" if cache.exists() and not resolve.missing(SERVICES, cache) else "rwx"


def _there(path: Path) -> Path:
    """`path`, else the first folder above it that is there."""
    return next(step for step in (path, *path.parents) if step.exists())


def _least_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    except OSError:
        return 1024


def _require_program(owner: Account, state: Path) -> None:
    if closed := accounts.closed(owner, _program()):
        raise Terminal(
            f"{state} is {owner.name}'s, who {closed}",
            fix=f"Call it from a checkout, and with a Python, that {owner.name} can read, such as one below /opt.",
        )


def _may_become(account: Account) -> bool:
    try:
        accounts.closed(account, ())
    except OSError:
        return False
    return True


def _home(account: Account) -> Path:
    """Its own, else one beside the files of servers: programs are downloaded into its cache."""
    entry = accounts.find(account.name)
    if entry is not None and os.path.isdir(entry.pw_dir) and _uid(Path(entry.pw_dir).resolve()) == account.uid:
        return Path(entry.pw_dir)
    return owners.OUTSIDE / f"home-{account.uid}"


def _become(account: Account) -> NoReturn:
    """Begin this process anew as `account`; it keeps root's environment, terminal and working folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_SESSION)}
    environment |= {"HOME": str(_home(account)), "USER": account.name, "LOGNAME": account.name}
    for name in _TEMPORARY:
        if name in environment and accounts.closed(account, [(Path(environment[name]), "wx")]):
            del environment[name]
    sys.stdout.flush()
    sys.stderr.flush()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.setgroups(accounts.groups(account))
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - this very command
