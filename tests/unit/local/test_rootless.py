"""What root calls goes on as the account to which the stack belongs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from include.cli.main import lyrebird
from include.clock import SystemClock
from include.errors import Terminal
from include.local import accounts, owners, rootless
from include.local.accounts import Account
from include.local.records import Records, lock
from include.local.rootless import act_as_owner, hand_over
from tests.support.sites import passable

NOBODY = Account("nobody-here", 4_000_001, 4_000_002)


class Begun(Exception):
    """The command has begun anew."""


class Machine:
    """Root's machine: what root does to files and to its own process is noted, and not done."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.state = folder, folder / "state"
        self.given: list[Path] = []
        self.steps: list[Any] = []
        self.argv: list[str] = []
        self.environment: dict[str, str] = {}
        self.said: list[str] = []
        self.owned: dict[int, int] = {}
        self.dies_at: Path | None = None
        stat = os.stat
        patch.setattr("os.geteuid", lambda: 0)
        patch.setattr("os.chown", lambda name, uid, _gid, dir_fd, **_: self.own(stat(name, dir_fd=dir_fd), uid))
        patch.setattr("os.fchown", lambda descriptor, uid, _gid: self.own(os.fstat(descriptor), uid))
        patch.setattr("os.setgroups", lambda gids: self.steps.append(("groups", gids)))
        patch.setattr("os.setresgid", lambda *gids: self.steps.append(("gid", gids)))
        patch.setattr("os.setresuid", lambda *uids: self.steps.append(("uid", uids)))
        patch.setattr("os.execve", self.execve)
        patch.setattr(accounts, "unprivileged", lambda: NOBODY)
        patch.setattr(owners, "_needs", lambda _: iter(()))
        patch.setattr(owners, "OUTSIDE", folder / "lib")
        patch.setattr(owners, "deployment_folder", lambda: folder)
        patch.setattr(rootless, "_uid", lambda path: self.owned.get(path.stat().st_ino, 0))

    def own(self, status: os.stat_result, uid: int) -> None:
        path = next(p for p in (self.folder, *self.folder.rglob("*")) if p.lstat().st_ino == status.st_ino)
        if path == self.dies_at:
            raise KeyboardInterrupt
        self.given.append(path)
        self.owned[status.st_ino] = uid

    def execve(self, program: str, argv: list[str], environment: dict[str, str]) -> None:
        self.steps.append(program)
        self.argv, self.environment = argv, environment
        raise Begun

    def hands_over(self) -> None:
        hand_over(self.state, SystemClock(), self.said.append)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with passable() as folder:
        yield Machine(folder, monkeypatch)


def test_all_of_the_state_folder_is_given_then_itself_then_the_command_begins_anew(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", "/its/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/root/cache")
    monkeypatch.setenv("TMPDIR", str(machine.folder / "closed" / "tmp"))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "include", "up"])
    (machine.folder / "closed").mkdir(mode=0o700)
    (machine.state / "airflow").mkdir(parents=True)
    (machine.state / "env").write_text("")
    with pytest.raises(Begun):
        machine.hands_over()
    home = machine.folder / "lib" / f"home-{NOBODY.uid}"
    below = {machine.state / name for name in ("airflow", "env", "launcher.lock", "supervisor")}
    assert below | {machine.state / "supervisor" / "lock"} == set(machine.given[1:-1])
    assert (machine.given[0], machine.given[-1]) == (home, machine.state)
    ids = (NOBODY.uid,) * 3
    assert machine.steps == [("groups", [NOBODY.gid]), ("gid", (NOBODY.gid,) * 3), ("uid", ids), sys.executable]
    assert machine.argv == [sys.executable, "-m", "include", "up"]
    assert machine.environment["HOME"] == str(home)
    assert machine.environment["USER"] == machine.environment["LOGNAME"] == NOBODY.name
    assert machine.environment["LYREBIRD_DEPLOYMENT"] == "/its/own"
    assert not {"XDG_CACHE_HOME", "TMPDIR"} & set(machine.environment)
    (line,) = machine.said
    assert f"goes on as {NOBODY.name}" in line


@pytest.mark.parametrize("at", ["lib/home-4000001", "state/airflow", "state"])
def test_what_dies_while_it_gives_gives_all_the_next_time(machine: Machine, at: str) -> None:
    (machine.state / "airflow").mkdir(parents=True)
    machine.dies_at = machine.folder / at
    with pytest.raises(KeyboardInterrupt):
        machine.hands_over()
    assert machine.steps == []
    assert machine.state not in machine.given
    machine.dies_at = None
    with pytest.raises(Begun):
        machine.hands_over()
    assert machine.given[-1] == machine.state


def test_nothing_is_given_while_servers_of_root_s_run(machine: Machine) -> None:
    with lock(Records(machine.state).supervisor_lock, SystemClock()):
        machine.hands_over()
    assert (machine.given, machine.steps, machine.said) == ([], [], [])


def test_root_stays_where_the_account_cannot_read_the_program(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = machine.folder / "home"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(owners, "_needs", lambda _: iter([closed / "python"]))
    machine.hands_over()
    assert (machine.given, machine.steps, machine.said) == ([], [], [])
    why, fix = owners.obstacle(NOBODY, machine.state, machine.state)
    assert f"cannot enter {closed}" in why
    assert "/opt" in fix


def test_root_stays_where_files_of_servers_lie_outside(machine: Machine) -> None:
    outside = machine.folder / "lib" / "mark"
    outside.mkdir(parents=True)
    Records(machine.state).write_stack({"ports": {}, "data_root": str(outside)})
    machine.hands_over()
    assert (machine.given, machine.steps) == ([], [])
    assert str(outside) in owners.obstacle(NOBODY, machine.state, outside)[0]


def test_a_deployment_that_the_account_cannot_read_is_named(machine: Machine) -> None:
    secret = machine.folder / "shop.yaml"
    secret.write_text("")
    secret.chmod(0o600)
    assert str(secret) in owners.obstacle(NOBODY, machine.state, machine.state)[0]


def test_a_command_on_another_s_stack_begins_as_that_one(machine: Machine) -> None:
    machine.state.mkdir()
    act_as_owner(machine.state)
    assert machine.steps == []
    machine.owned[machine.state.stat().st_ino] = NOBODY.uid
    for begin in (partial(act_as_owner, machine.state), machine.hands_over):
        machine.steps.clear()
        with pytest.raises(Begun):
            begin()
        assert ("uid", (NOBODY.uid,) * 3) in machine.steps
    assert machine.state not in machine.given


def test_root_leaves_no_file_in_the_stack_of_one_who_cannot_run_the_command(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = machine.folder / "home"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(owners, "_needs", lambda _: iter([closed / "python"]))
    machine.state.mkdir()
    machine.owned[machine.state.stat().st_ino] = NOBODY.uid
    for begin in (partial(act_as_owner, machine.state), machine.hands_over):
        with pytest.raises(Terminal) as told:
            begin()
        assert f"cannot enter {closed}" in told.value.message
        assert told.value.fix
    assert list(machine.state.iterdir()) == []


def test_an_ordinary_user_is_never_changed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: NOBODY.uid)
    monkeypatch.setattr(accounts, "unprivileged", lambda: None)
    machine.state.mkdir()
    machine.owned[machine.state.stat().st_ino] = 1
    machine.hands_over()
    act_as_owner(machine.state)
    assert machine.steps == []


def test_each_command_but_binlog_acts_as_the_owner(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.state.mkdir()
    machine.owned[machine.state.stat().st_ino] = NOBODY.uid
    monkeypatch.setenv("LYREBIRD_STATE", str(machine.state))
    for words in (["status"], ["audit", "--help"], ["up"]):
        assert isinstance(CliRunner().invoke(lyrebird, words).exception, Begun), words
    # Its files may be readable by root alone.
    assert CliRunner().invoke(lyrebird, ["binlog", "--help"]).exit_code == 0
