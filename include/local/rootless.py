"""Runs root's calls of `lyrebird` as the account that the stack belongs to.

| the state folder is | what root calls |
|---|---|
| another's | goes on as that one |
| root's, or not there yet | `hand_over` gives it to the account of the servers, and goes on as that one |

Where the account cannot (owners.py says what it cannot reach), root stays, and `up` starts servers under accounts.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from include.clock import Clock
from include.errors import Terminal
from include.local import accounts, owners
from include.local.accounts import Account
from include.local.records import Records, lock

__all__ = ["act_as_owner", "become", "hand_over"]

# Of root's session; the account has none.
_SESSION = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")


def act_as_owner(state: Path) -> None:
    """Begin this command anew as the owner of `state`, where root calls it and that is another.

    Raises Terminal where that one cannot run it: root would leave files there that the owner cannot use, and follow
    links that the owner has made.
    """
    if os.geteuid() != 0 or not state.exists() or (uid := _uid(state)) == 0:
        return
    account = _account(uid)
    why, fix = owners.obstacle(account, state, state)
    if why:
        raise Terminal(f"{state} is {account.name}'s, and {why}", fix=fix)
    become(account)


def hand_over(state: Path, clock: Clock, say: Callable[[str], None]) -> None:
    """Give root's `state` to the account of the servers, and begin this command anew as that one.

    Returns where root does not call it, where the account cannot run all of the stack, and while something runs that
    root has started. Steps, each of which may be the last before a crash:

    1. the account, and a home for it where it has none,
    2. what is in the state folder, then that itself,
    3. the command as the account.

    The next call does all of it again, as the state folder itself is given behind what is in it.
    """
    act_as_owner(state)
    account = accounts.unprivileged()
    if account is None:
        return
    records = Records(state)
    if owners.obstacle(account, state, owners.data_root(state, account, records.stack().get("data_root")))[0]:
        return
    accounts.make_way(state)
    with lock(records.launcher_lock, clock):
        if _runs(records, clock):
            return
        home = _home(account)
        accounts.give(state, account)
    say(f"Root's start goes on as {account.name}, to whom {state} belongs.")
    become(account, home)


def become(account: Account, home: Path | None = None) -> NoReturn:
    """Begin this process anew as `account`, in its groups, with its `home`."""
    environment = {name: value for name, value in os.environ.items() if name not in _SESSION}
    environment |= {"HOME": str(home or _home(account)), "USER": account.name, "LOGNAME": account.name}
    temporary = environment.get("TMPDIR")
    if temporary and not accounts.reaches(Path(temporary), account):
        del environment["TMPDIR"]
    sys.stdout.flush()
    sys.stderr.flush()
    known = accounts.find(account.name)
    os.setgroups(os.getgrouplist(account.name, account.gid) if known else [account.gid])
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - this very command


def _uid(path: Path) -> int:
    return path.stat().st_uid


def _account(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:  # of another machine: a folder that a container was given
        return Account(str(uid), uid, uid)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _home(account: Account) -> Path:
    """Its own, else one beside the files of servers: programs are downloaded into its cache."""
    entry = accounts.find(account.name)
    if entry is not None and os.path.isdir(entry.pw_dir) and os.stat(entry.pw_dir).st_uid == account.uid:
        return Path(entry.pw_dir)
    home = owners.OUTSIDE / f"home-{account.uid}"
    accounts.give(home, account)
    return home


def _runs(records: Records, clock: Clock) -> bool:
    if any((state := records.read(name)) and state.is_alive for name in records.names()):
        return True
    with lock(records.supervisor_lock, clock, patience_s=0.0) as free:
        return not free
