"""The table of servers, and how apt is told where to look."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.errors import SettingsError, Terminal
from tests.support.servers.catalogue import SERVERS, known
from tests.support.servers.debian import configuration, mirror


def test_a_server_that_is_not_known_is_refused_with_the_names_that_are() -> None:
    with pytest.raises(SettingsError, match=r"mariadb-10\.1.*mysql-9\.7"):
        known("mysql-4.0")


def test_every_server_comes_from_somewhere() -> None:
    assert all(row.of_stack or row.archive or row.packages for row in SERVERS)
    assert all(len(row.archive.sha256) == 64 for row in SERVERS if row.archive)


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("mariadb-10.2", (10, 2), True),
        ("mariadb-10.2", (10, 11), False),
        ("mariadb-10.11", (10, 2), True),
        ("mysql-9.7", (8,), True),
        ("mysql-5.6", (8, 0, 23), False),
        ("mariadb-11.8", (11, 8), True),
    ],
)
def test_versions_are_compared_as_numbers(name: str, version: tuple[int, ...], *, expected: bool) -> None:
    assert known(name).at_least(*version) is expected


def test_the_mirror_is_that_of_the_machines_own_sources() -> None:
    targets = ["http://one/other/|jammy|main", "http://two/debian-security/|bookworm-security|main"]
    assert mirror([*targets, "http://three/debian/|bookworm|main"]) == "http://three/debian/"


def test_a_machine_without_a_mirror_of_debian_is_told_so() -> None:
    with pytest.raises(Terminal, match="knows no mirror of Debian"):
        mirror(["http://one/other/|jammy|main"])


def test_apt_reads_and_writes_nothing_outside_of_its_folder() -> None:
    said = configuration(Path("/any/folder"), "i386")
    paths = [line.split('"')[1] for line in said.splitlines() if line.startswith("Dir::")]
    assert all(path == "-" or path.startswith("/any/folder/") for path in paths)
    assert 'APT::Architecture "i386";' in said
