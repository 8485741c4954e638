"""Which account runs a server where root starts the stack."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.errors import Terminal
from include.local import accounts, doctor, owners
from include.local.accounts import Account
from include.local.services import SERVICES, service
from tests.support.sites import passable

NOBODY = Account("nobody-here", 4_000_001, 4_000_002)


@pytest.fixture
def folder() -> Iterator[Path]:
    with passable() as made:
        yield made


@pytest.fixture
def state(folder: Path) -> Path:
    made = folder / "state"
    made.mkdir()
    return made


def closed(folder: Path) -> Path:
    """A program that only its owner reaches."""
    home = folder / "home"
    program = home / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text("")
    for path in (program.parent, program):
        path.chmod(0o755)
    home.chmod(0o700)
    return program


def needing(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    monkeypatch.setattr(owners, "_needs", lambda _: iter(paths))


def test_an_ordinary_user_runs_all_servers_in_the_state_folder(state: Path) -> None:
    assert owners.data_root(state, None) == state
    for row in SERVICES:
        assert owners.owner(row, None, state, state) == owners.Owner(state / row.name)


def test_the_account_runs_all_but_what_starts_applications(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needing(monkeypatch, state)
    state.chmod(0o711)
    found = {row.name: owners.owner(row, NOBODY, state, state) for row in SERVICES}
    assert {name for name, owner in found.items() if owner.account is None} == {"airflow"}
    assert {name for name, owner in found.items() if owner.why} == {"airflow"}
    assert "ordinary user" in found["airflow"].fix


@pytest.mark.parametrize("name", ["kafka", "registry", "mail"])
def test_a_server_whose_program_the_account_cannot_reach_stays_with_root_and_says_why(
    name: str, folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = closed(folder)
    needing(monkeypatch, program)
    found = owners.owner(service(name), NOBODY, state, state)
    assert (found.account, found.folder) == (None, state / name)
    assert found.why == f"nobody-here cannot enter {program.parents[1]}, and it needs {program}"
    assert "LYREBIRD_ACCOUNT" in found.fix


def test_the_mail_catcher_needs_the_interpreter_that_runs_this_and_the_project(
    folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = closed(folder)
    link = folder / "python"
    link.symlink_to(program)
    monkeypatch.setattr("sys.executable", str(link))
    assert f"cannot enter {program.parents[1]}" in owners.owner(service("mail"), NOBODY, state, state).why


def test_a_server_that_refuses_root_is_refused_where_the_account_cannot_run_it(
    folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needing(monkeypatch, closed(folder))
    with pytest.raises(Terminal, match="elasticsearch has to run as 'nobody-here', but nobody-here cannot enter"):
        owners.owner(service("elasticsearch"), NOBODY, state, state)


def test_root_does_not_take_files_back_that_were_the_account_s(
    folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = Account("me", os.geteuid(), os.getegid())
    (state / "s3").mkdir()
    missing = folder / "java"
    missing.mkdir(mode=0o000)
    needing(monkeypatch, missing)
    with pytest.raises(Terminal, match="s3 has to run as 'me', but me cannot enter"):
        owners.owner(service("s3"), me, state, state)


def test_files_that_root_has_where_the_account_cannot_pass_stay_and_are_told_with_how_to_move_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needing(monkeypatch)
    home = folder / "home"
    state = home / "state"
    (state / "kafka").mkdir(parents=True)
    home.chmod(0o700)
    root = owners.data_root(state, NOBODY)
    assert root.parent == Path("/var/lib/lyrebird")
    found = owners.owner(service("kafka"), NOBODY, state, root)
    assert (found.folder, found.account) == (state / "kafka", None)
    assert found.fix.endswith(f"mkdir -p {root} && mv {state}/kafka {root}/kafka")
    # What is new begins where the account can pass.
    assert owners.owner(service("s3"), NOBODY, state, root) == owners.Owner(root / "s3", NOBODY)


def test_a_file_is_reached_by_whom_its_mode_lets_read_it(folder: Path) -> None:
    file = folder / "file"
    file.write_text("")
    file.chmod(0o640)
    assert accounts.barrier(file, NOBODY) == file
    assert accounts.reaches(file, Account("group", NOBODY.uid, file.stat().st_gid))
    assert accounts.reaches(file, None)
    assert accounts.reaches(folder / "none", NOBODY)


def test_doctor_names_as_root_each_server_that_stays_with_root_and_why(
    folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LYREBIRD_ACCOUNT", raising=False)
    monkeypatch.setattr(accounts, "find", lambda _: None)
    needing(monkeypatch, closed(folder))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    told = [check for check in doctor._account(state) if check.verdict == "note"]
    assert [check.found.partition(" ")[0] for check in told] == ["kafka", "registry", "s3", "mail", "airflow"]
    assert all("will run as root: " in check.found and check.fix for check in told)
