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
from tests.support.paths import ROOT
from tests.support.sites import passable

NOBODY = Account("nobody-here", 4_000_001, 4_000_002)


BECOMES = ("uid", (NOBODY.uid,) * 3)


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
        patch.setattr("pwd.getpwuid", lambda uid: {NOBODY.uid: pwd.struct_passwd(entry)}[uid])
        patch.setattr(owners, "OUTSIDE", folder / "lib")
        patch.setattr("os.setgroups", lambda gids: self.steps.append(("groups", gids)))
        patch.setattr("os.setresgid", lambda *gids: self.steps.append(("gid", gids)))
        patch.setattr("os.setresuid", lambda *uids: self.steps.append(("uid", uids)))
        patch.setattr(rootless, "_uid", self.uid)
        patch.setattr(accounts, "closed", self.answer)
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
    # Groups while this is root, and nothing between the account and the program.
    ids = ("gid", (NOBODY.gid,) * 3), BECOMES
    assert machine.steps == [("closed from", 3), ("groups", [NOBODY.gid]), *ids, sys.executable]
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
    # That would help nobody who cannot reach it then.
    machine.closed[sys.executable] = "cannot enter /root"
    assert "chown" not in why_root_stays(machine.state, NOBODY)[1]


def test_what_a_disk_has_of_its_own_is_no_stack_of_root_s(machine: Machine) -> None:
    (machine.state / "lost+found").mkdir(parents=True)
    with pytest.raises(Begun):
        machine.hands_over()
    assert machine.uid(machine.state) == NOBODY.uid
    machine.steps.clear()
    with pytest.raises(Begun):
        act_as_owner(machine.state)


def test_a_folder_that_others_may_put_another_in_place_of_is_not_given_away(machine: Machine) -> None:
    above = machine.folder / "above"
    above.mkdir()
    machine.state = above / "state"
    for mode, uid in ((0o777, 0), (0o755, NOBODY.uid)):
        above.chmod(mode)
        machine.belongs(above, uid)
        machine.hands_over()
        assert (machine.steps, machine.state.exists()) == ([], False)
        assert f"others than root may change {above}" in machine.said.pop()
    # As /tmp is.
    above.chmod(0o1777)
    machine.belongs(above, 0)
    with pytest.raises(Begun):
        machine.hands_over()


def test_a_link_is_followed_to_a_folder_that_is_looked_at_as_any_other(machine: Machine) -> None:
    real = machine.folder / "real" / "state"
    machine.state.symlink_to(real)
    machine.closed[str(machine.folder)] = "cannot enter"
    machine.hands_over()
    assert "cannot enter" in machine.said.pop()
    machine.closed.clear()
    with pytest.raises(Begun):
        machine.hands_over()
    assert machine.uid(real) == NOBODY.uid
    machine.steps.clear()
    with pytest.raises(Begun):
        act_as_owner(machine.state)


def test_a_folder_of_no_account_is_left_to_root_as_no_java_starts_as_nobody(machine: Machine) -> None:
    machine.state.mkdir()
    machine.belongs(machine.state, 1234)
    for begin in machine.begins:
        begin()
    assert machine.steps == []
    (line,) = machine.said
    assert "useradd --uid 1234" in line


def test_a_container_whose_root_cannot_become_another_goes_on_as_root(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> str:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(accounts, "closed", refused)
    machine.hands_over()
    assert "CAP_SETUID" in machine.said.pop()
    machine.state.mkdir()
    machine.belongs(machine.state)
    for begin in machine.begins:
        begin()
    assert machine.steps == []


def test_a_disk_that_knows_no_owners_leaves_the_start_to_root(machine: Machine) -> None:
    def refused() -> None:
        raise PermissionError(1, "Operation not permitted")

    machine.before_giving = refused
    machine.hands_over()
    assert f"{machine.state} cannot be given to {NOBODY.name}" in machine.said.pop()
    assert machine.steps == []


def test_who_has_a_home_keeps_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    home = machine.folder / "own"
    home.mkdir()
    machine.belongs(home)
    entry = (NOBODY.name, "x", NOBODY.uid, NOBODY.gid, "", str(home), "/bin/sh")
    monkeypatch.setattr(accounts, "find", lambda _name: pwd.struct_passwd(entry))
    monkeypatch.setattr("os.getgrouplist", lambda _name, gid: [gid, 7])
    with pytest.raises(Begun):
        machine.hands_over()
    assert machine.environment["HOME"] == str(home)
    assert not machine.home.exists()
    assert ("groups", [NOBODY.gid, 7]) in machine.steps
    assert rootless.cache_of(NOBODY) == home / ".cache" / "lyrebird"


def test_a_folder_that_is_filled_meanwhile_is_not_given_away(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(_state: Path, _account: Account) -> tuple[str, str]:
        machine.state.mkdir()
        (machine.state / "env").touch()
        return "", ""

    monkeypatch.setattr(rootless, "why_root_stays", other)
    machine.hands_over()
    assert (machine.steps, machine.uid(machine.state)) == ([], 0)
    assert "another start" in machine.said.pop()


def test_root_stays_where_the_account_cannot_do_what_the_stack_does(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, cache = machine.folder / "deployment", machine.folder / "cache"
    (deployment / "joins").mkdir(parents=True)
    (deployment / "joins" / "a.yaml").touch()
    cache.mkdir()
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(deployment))
    monkeypatch.setenv("LYREBIRD_CACHE", str(cache))
    checkout = [ROOT / name for name in ("dags", "plugins", "spark_apps", "demo")]
    for path in (sys.executable, deployment / "joins" / "a.yaml", cache, machine.folder, *checkout):
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
        assert BECOMES in machine.steps


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
    entry = ("other", "x", 1234, 1234, "", "/", "/bin/sh")
    monkeypatch.setattr(accounts, "find", lambda name: pwd.struct_passwd(entry) if name == "other" else None)
    with pytest.raises(Terminal) as told:
        machine.hands_over()
    assert "LYREBIRD_ACCOUNT is 'other'" in told.value.message
    assert told.value.fix


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
    machine.steps.clear()
    for words in (["status", "--help"], ["--version"], ["binlog", "cat", "--help"]):
        assert called(*words) == 0
    # These read what the caller may read.
    assert called("binlog", "cat", str(machine.folder / "none")) != 0
    assert called("check", "--deployment", str(machine.folder / "none")) != 0
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
