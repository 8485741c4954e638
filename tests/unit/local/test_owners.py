"""Which account runs a server where root starts the stack."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import include.local.site
from include.errors import Terminal
from include.local import accounts, doctor, owners
from include.local.accounts import Account
from include.local.programs import resolve
from include.local.services import SERVICES, service
from include.local.site import Site
from include.local.stack import Stack
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


def enclosed(folder: Path, *held: str) -> Path:
    """A state folder that other accounts cannot reach."""
    state = folder / "home" / "state"
    for path in (state, *(state / name for name in held)):
        path.mkdir(parents=True)
    state.parent.chmod(0o700)
    return state


def given_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(path, NOBODY.uid, NOBODY.gid)
    else:
        monkeypatch.setattr("os.geteuid", lambda: 0)


def needing(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    monkeypatch.setattr(owners, "_needs", lambda _: iter(paths))


def test_the_way_to_all_folders_is_open_before_servers_are_prepared_side_by_side(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needing(monkeypatch)
    monkeypatch.setattr(owners, "OUTSIDE", folder / "lib" / "lyrebird")
    monkeypatch.setattr(accounts, "unprivileged", lambda: NOBODY)
    monkeypatch.setattr(include.local.site, "usable_cache", lambda _: folder)
    monkeypatch.setattr(resolve, "ensure", lambda *_: None)
    modes: list[int] = []

    def prepare(_stack: Stack, site: Site, *_rows: object) -> None:
        modes.extend(way.stat().st_mode & 0o777 for way in (site.data_root, *site.data_root.parents[:2]))

    monkeypatch.setattr(Stack, "_bring_up", prepare)
    (tmp_path / "home").mkdir(mode=0o700)
    Stack(tmp_path / "home" / "state", free_ports=True).up(["mariadb"])
    assert modes == [0o711] * 3


def test_an_ordinary_user_runs_all_servers_in_the_state_folder(state: Path) -> None:
    assert owners.data_root(state, None, None) == state
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


@pytest.mark.parametrize("inside", [True, False])
def test_root_does_not_take_back_files_that_are_another_account_s(
    inside: bool, folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = folder / "outside"
    held = (state if inside else root) / "s3"
    held.mkdir(parents=True)
    given_away(held, monkeypatch)
    needing(monkeypatch, closed(folder))
    with pytest.raises(Terminal, match="s3 has to run as 'nobody-here', but nobody-here cannot enter"):
        owners.owner(service("s3"), NOBODY, state, root)


def test_files_that_root_has_where_the_account_cannot_pass_stay_and_are_told_with_how_to_move_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needing(monkeypatch)
    outside = folder / "with blank"
    monkeypatch.setattr(owners, "OUTSIDE", outside)
    state = enclosed(folder, "kafka")
    root = owners.data_root(state, NOBODY, str(state))
    assert root.parent == outside
    found = owners.owner(service("kafka"), NOBODY, state, root)
    assert (found.folder, found.account) == (state / "kafka", None)
    # What is new begins where the account can pass.
    assert owners.owner(service("s3"), NOBODY, state, root) == owners.Owner(root / "s3", NOBODY)
    command = found.fix.partition("then: ")[2]
    subprocess.run(command, shell=True, check=True, umask=0o077)
    assert owners.owner(service("kafka"), NOBODY, state, root) == owners.Owner(root / "kafka", NOBODY)


@pytest.mark.parametrize("name", ["mariadb", "elasticsearch"])
def test_a_server_that_refuses_root_does_not_begin_anew_where_its_folder_was_closed(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needing(monkeypatch)
    state = enclosed(folder, name)
    root = owners.data_root(state, NOBODY, str(state))
    with pytest.raises(Terminal, match=f"has to run as 'nobody-here', but its files lie in {state / name}"):
        owners.owner(service(name), NOBODY, state, root)


def test_a_folder_outside_that_the_account_cannot_pass_is_told(
    folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needing(monkeypatch)
    root = folder / "outside" / "mark"
    root.mkdir(parents=True)
    root.parent.chmod(0o700)
    found = owners.owner(service("s3"), NOBODY, state, root)
    assert (found.account, found.fix) == (None, f"Run: chmod o+x {root.parent}")


def test_data_outside_stay_in_use_whoever_may_pass_later_and_wherever_the_checkout_moves(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needing(monkeypatch)
    monkeypatch.setattr(owners, "OUTSIDE", folder / "outside")
    monkeypatch.setenv("LYREBIRD_CACHE", str(folder / "cache"))
    state = enclosed(folder)

    def opened_by(account: Account | None, at: Path = state) -> Site:
        monkeypatch.setattr(accounts, "unprivileged", lambda: account)
        return Site.open(at, free_ports=True, keep_ports=False)

    before = opened_by(NOBODY).folder(service("s3"))
    assert before.is_relative_to(folder / "outside")
    before.mkdir(parents=True)
    before.parents[1].chmod(0o711)
    before.parent.chmod(0o711)
    # Whom the fix names, who passes where the other could not.
    other = Account("other", os.geteuid(), os.getegid())
    assert opened_by(other).owner(service("s3")) == owners.Owner(before, other)
    state.parent.chmod(0o711)
    assert opened_by(NOBODY).owner(service("s3")) == owners.Owner(before, NOBODY)
    assert opened_by(NOBODY, state.rename(folder / "moved")).folder(service("s3")) == before
    with pytest.raises(Terminal, match=f"s3 has its files in {before}"):
        opened_by(None, folder / "moved").owner(service("s3"))


def test_a_state_folder_that_moved_is_not_left_for_its_old_place(folder: Path, state: Path) -> None:
    assert owners.data_root(state, NOBODY, str(folder / "old")) == state


def test_of_two_folders_with_files_none_is_taken(folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needing(monkeypatch)
    for parent in (state, folder / "outside"):
        (parent / "mariadb").mkdir(parents=True)
    with pytest.raises(Terminal, match=r"mariadb has files in .*/state/mariadb and in .*/outside/mariadb"):
        owners.owner(service("mariadb"), NOBODY, state, folder / "outside")


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
    whole, *told = [check for check in doctor._account(state) if check.verdict == "note"]
    assert whole.found.startswith("root starts the stack: ")
    assert whole.fix
    assert [check.found.partition(" ")[0] for check in told] == ["kafka", "registry", "s3", "mail", "airflow"]
    assert all("will run as root: " in check.found and check.fix for check in told)
