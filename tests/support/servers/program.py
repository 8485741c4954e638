"""How the program of a fetched server is called: its own loader and libraries where it brings them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from include.errors import Terminal
from tests.support.servers.catalogue import Known
from tests.support.servers.fetch import home

__all__ = ["Program", "program"]

_LOADERS = {"amd64": "ld-linux-x86-64.so.2", "i386": "ld-linux.so.2"}
_TRIPLES = {"amd64": "x86_64-linux-gnu", "i386": "i386-linux-gnu"}


@dataclass(frozen=True)
class Program:
    """`argv` starts the server with no option yet. `share` holds its messages, charsets and system tables."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    base: Path
    share: Path
    plugins: Path


def program(row: Known) -> Program:
    """The program of a server that is in the cache; Terminal when a file that it needs is not there."""
    folder = home(row)
    root = folder / "root"
    if row.archive or row.of_stack:
        base, share, plugins = folder, folder / "share", folder / "lib" / "plugin"
        candidates = [folder / "bin" / name for name in ("mariadbd", "mysqld")]
    else:
        base, plugins = root / "usr", root / "usr" / "lib" / "mysql" / "plugin"
        share = _existing(row, [base / "share" / name for name in ("mysql", "mariadb")])
        candidates = [base / "sbin" / name for name in ("mariadbd", "mysqld")]
    binary = _existing(row, candidates)
    environment = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    if row.packages is None:
        environment["LD_LIBRARY_PATH"] = str(folder / "libs")
        return Program((str(binary),), environment, base, share, plugins)
    triple = _TRIPLES[row.packages.architecture]
    libraries = [root / "usr/lib" / triple, root / "lib" / triple, root / "usr/lib/mysql/private"]
    loader = _LOADERS[row.packages.architecture]
    places = [*(folder / loader for folder in libraries), root / "lib" / loader, root / "usr/lib" / loader]
    argv = (
        str(_existing(row, places)),
        "--inhibit-cache",
        "--library-path",
        ":".join(str(folder) for folder in libraries if folder.exists()),
        str(binary),
    )
    # The system's settings of OpenSSL may name modules that this tree does not have.
    environment |= {"OPENSSL_CONF": "/dev/null", "OPENSSL_MODULES": str(libraries[0] / "ossl-modules")}
    return Program(argv, environment, base, share, plugins)


def _existing(row: Known, places: list[Path]) -> Path:
    for place in places:
        if place.exists():
            return place
    raise Terminal(
        f"{row.name} has no {places[0].name} in {home(row)}",
        fix=f"Remove that folder and run: python -m tests.support.servers fetch {row.name}",
    )
