"""What root calls goes on as the account to which the stack belongs."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import demo.command
from include.cli import main
from include.cli.stack import up
from include.errors import Terminal
from include.local import accounts, owners, rootless
from include.local.accounts import Account
from include.local.records import Records
from include.local.rootless import act_as_owner, hand_over, why_root_stays
from tests.support.sites import passable

NOBODY = Account("nobody-here", 4_000_001, 4_000_002)


class Begun(Exception):
    """The command has begun anew."""


class Machine:
    """Root's machine: what root does to files and to its own process is noted, and not done."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.state, self.home = folder, folder / "state", folder / "lib" / f"home-{NOBODY.uid}"
        self.steps: list[Any] = []
        self.argv: list[str] = []
        self.environment: dict[str, str] = {}
        self.said: list[str] = []
        self.owned: dict[int, int] = {}
        self.closed: dict[str, str] = {}
        self.before_giving: Callable[[], None] = lambda: None
        patch.setattr("os.geteuid", lambda: 0)
        patch.setattr("os.fchown", lambda descriptor, uid, _gid: self.own(descriptor, uid))
        patch.setattr("os.execve", self.execve)
        patch.setattr("os.closerange", lambda first, _last: self.steps.append(("closed from", first)))
        patch.setattr(accounts, "unprivileged", lambda: NOBODY)
        entry = (NOBODY.name, "x", NOBODY.uid, NOBODY.gid, "", "/home/nobody-here", "/bin/false")
        patch.setattr("pwd.getpwuid", lambda _uid: pwd.struct_passwd(entry))
        patch.setattr(owners, "OUTSIDE", folder / "lib")
        patch.setattr(rootless, "_take", lambda account: self.steps.append(account))
        patch.setattr(rootless, "_uid", self.uid)
        patch.setattr(rootless, "_closed", self.answer)
        for name in ("LYREBIRD_ACCOUNT", "LYREBIRD_CACHE"):
            patch.delenv(name, raising=False)

    def uid(self, place: Path | int) -> int:
        status = os.fstat(place) if isinstance(place, int) else place.lstat()
        return self.owned.get(status.st_ino, 0)

    def own(self, descriptor: int, uid: int) -> None:
        self.before_giving()
        self.owned[os.fstat(descriptor).st_ino] = uid

    def belongs(self, path: Path, uid: int = NOBODY.uid) -> None:
        self.owned[path.lstat().st_ino] = uid

    def answer(self, _account: Account, wanted: Any) -> str:
        return next((self.closed[str(path)] for path, _ in wanted if str(path) in self.closed), "")

    def execve(self, program: str, argv: list[str], environment: dict[str, str]) -> None:
        self.steps.append(program)
        self.argv, self.environment = argv, environment
        raise Begun

    def hands_over(self) -> None:
        hand_over(self.state, self.said.append)

    @property
    def begins(self) -> tuple[Callable[[], None], ...]:
        return partial(act_as_owner, self.state), self.hands_over


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with passable() as folder:
        yield Machine(folder, monkeypatch)


def test_a_new_stack_is_given_to_the_account_and_the_command_begins_anew_as_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"LYREBIRD_DEPLOYMENT": "/its/own", "TMP": str(machine.folder), "LANG": "C"}
    gone = {"XDG_CACHE_HOME": "/root/c", "SUDO_USER": "x", "SSH_AUTH_SOCK": "/s", "TMPDIR": "/root/tmp"}
    for name, text in (kept | gone).items():
        monkeypatch.setenv(name, text)
    machine.closed["/root/tmp"] = "cannot write /root/tmp"
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "include", "up"])
    with pytest.raises(Begun):
        machine.hands_over()
    assert {machine.uid(path) for path in (machine.state, machine.home)} == {NOBODY.uid}
    assert {path.stat().st_mode & 0o777 for path in (machine.state, machine.home)} == {0o700}
    # What root has open is closed while this is still root; nothing is done between the account and the program.
    assert machine.steps == [("closed from", 3), NOBODY, sys.executable]
    assert machine.argv == [sys.executable, "-m", "include", "up"]
    own = {"HOME": str(machine.home), "USER": NOBODY.name, "LOGNAME": NOBODY.name}
    assert {name: machine.environment[name] for name in kept | own} == kept | own
    assert not set(gone) & set(machine.environment)
    (line,) = machine.said
    assert f"goes on as {NOBODY.name}" in line


@pytest.mark.parametrize("at", [1, 2])
def test_what_dies_while_it_gives_is_gone_on_with_by_the_next_start(machine: Machine, at: int) -> None:
    calls = []

    def die() -> None:
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt

    machine.before_giving = die
    with pytest.raises(KeyboardInterrupt):
        machine.hands_over()
    assert machine.steps == []
    with pytest.raises(Begun):
        machine.hands_over()
    assert {machine.uid(path) for path in (machine.state, machine.home)} == {NOBODY.uid}


def test_of_two_starts_at_once_none_goes_on_as_root(machine: Machine) -> None:
    def other() -> None:
        machine.before_giving = lambda: None
        with pytest.raises(Begun):
            machine.hands_over()
        (machine.state / "launcher.lock").touch()
        machine.belongs(machine.state / "launcher.lock")

    machine.before_giving = other
    with pytest.raises(Begun):
        machine.hands_over()
    assert machine.uid(machine.state) == NOBODY.uid


def test_a_folder_that_holds_something_is_never_given_away(machine: Machine) -> None:
    (machine.state / "mariadb").mkdir(parents=True)
    machine.belongs(machine.state / "mariadb")
    machine.hands_over()
    assert (machine.steps, machine.uid(machine.state)) == ([], 0)
    (line,) = machine.said
    assert "holds a stack of root's" in line
    assert f"chown -hR {NOBODY.name}: {machine.state}" in line
    Records(machine.state).write_stack({"ports": {}, "data_root": "/var/lib/lyrebird/mark"})
    assert "move what /var/lib/lyrebird/mark holds" in why_root_stays(machine.state, NOBODY)[1]


def test_a_folder_that_is_filled_meanwhile_is_not_given_away(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(_state: Path, _account: Account) -> tuple[str, str]:
        machine.state.mkdir()
        (machine.state / "env").touch()
        return "", ""

    monkeypatch.setattr(rootless, "why_root_stays", other)
    machine.hands_over()
    assert (machine.steps, machine.uid(machine.state)) == ([], 0)


def test_root_stays_where_the_account_cannot_do_what_the_stack_does(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, cache = machine.folder / "deployment", machine.folder / "cache"
    (deployment / "joins").mkdir(parents=True)
    (deployment / "joins" / "a.yaml").touch()
    cache.mkdir()
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(deployment))
    monkeypatch.setenv("LYREBIRD_CACHE", str(cache))
    for path in (sys.executable, deployment / "joins" / "a.yaml", cache, machine.folder):
        machine.closed = {str(path): f"cannot read {path}"}
        machine.hands_over()
        assert (machine.steps, machine.state.exists()) == ([], False)
        assert f"{NOBODY.name} cannot read {path}" in machine.said.pop()
    machine.closed.clear()
    monkeypatch.setenv("LYREBIRD_PORT_AIRFLOW", "81")
    machine.hands_over()
    assert "LYREBIRD_PORT_AIRFLOW is 81" in machine.said.pop()
    assert machine.steps == []


def test_a_command_on_another_s_stack_begins_as_that_one(machine: Machine) -> None:
    machine.state.mkdir()
    act_as_owner(machine.state)
    assert machine.steps == []
    machine.belongs(machine.state)
    for begin in machine.begins:
        machine.steps.clear()
        with pytest.raises(Begun):
            begin()
        assert NOBODY in machine.steps


def test_root_s_own_files_in_another_s_folder_keep_root_until_they_are_that_one_s(machine: Machine) -> None:
    machine.state.mkdir()
    machine.belongs(machine.state)
    env = machine.state / "env"
    env.touch()
    for begin in machine.begins:
        begin()
        assert machine.steps == []
    machine.belongs(env)
    for begin in machine.begins:
        with pytest.raises(Begun):
            begin()


def test_root_leaves_no_file_in_the_stack_of_one_who_cannot_run_the_command(machine: Machine) -> None:
    machine.closed[sys.executable] = f"cannot enter /root, and needs {sys.executable}"
    machine.state.mkdir()
    machine.belongs(machine.state)
    for begin in machine.begins:
        with pytest.raises(Terminal) as told:
            begin()
        assert "cannot enter /root" in told.value.message
        assert told.value.fix
    assert list(machine.state.iterdir()) == []


def test_another_account_than_the_owner_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.state.mkdir()
    machine.belongs(machine.state)
    monkeypatch.setenv("LYREBIRD_ACCOUNT", "other")
    with pytest.raises(Terminal) as told:
        machine.hands_over()
    assert "LYREBIRD_ACCOUNT is 'other'" in told.value.message
    assert "chown" in told.value.fix


def test_an_ordinary_user_is_never_changed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: NOBODY.uid)
    machine.state.mkdir()
    machine.belongs(machine.state, 1)
    for begin in machine.begins:
        begin()
    assert machine.steps == []


def test_commands_of_the_stack_act_as_its_owner_and_what_reads_the_callers_files_does_not(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.state.mkdir()
    machine.belongs(machine.state)
    monkeypatch.setenv("LYREBIRD_STATE", str(machine.state))

    def called(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["lyrebird", *words])
        return main.main()

    for words in (["status"], ["--json", "down"], ["capture", "status"], ["nosuch"]):
        with pytest.raises(Begun):
            called(*words)
    for words in (["status", "--help"], ["--version"], ["binlog", "cat", "--help"], ["check", "--help"]):
        machine.steps.clear()
        assert called(*words) == 0
        assert machine.steps == []


@pytest.mark.parametrize(("command", "words"), [(up, []), (up, ["--fetch"]), (demo.command.command, ["--json"])])
def test_each_start_of_a_new_stack_hands_it_over(
    command: Any, words: list[str], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LYREBIRD_STATE", str(machine.state))
    assert isinstance(CliRunner().invoke(command, words).exception, Begun)
    assert machine.uid(machine.state) == NOBODY.uid


def test_a_file_that_is_closed_to_who_runs_the_command_is_one_line(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(13, "Permission denied", "/root/report.html")

    monkeypatch.setattr(main.lyrebird, "main", refused)
    monkeypatch.setattr(sys, "argv", ["lyrebird", "check"])
    assert main.main() == 1
    (line, *_) = capsys.readouterr().err.splitlines()
    assert "/root/report.html is closed to" in line
