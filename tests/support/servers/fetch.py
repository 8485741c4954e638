"""Brings a server into the cache, once per machine: `<cache>/servers/<name>/`, with a manifest of every file.

The servers of the one-machine stack stay where the stack keeps them. A crash leaves at most a side folder, which the
next fetch removes.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from include.clock import Clock
from include.local.programs import manifest, resolve
from include.local.programs.download import require_space
from include.local.records import lock
from include.local.services import service
from include.settings.environment import cache_folder
from tests.support.servers import debian, maven
from tests.support.servers.catalogue import Known

__all__ = ["fetch", "home", "is_here"]

_STACK_ROW = "mariadb"
_SIDE = ".side-"


def home(row: Known) -> Path:
    """Where the server's files are, or would be."""
    if row.of_stack:
        return resolve.folder_of(service(_STACK_ROW), cache_folder())
    return cache_folder() / "servers" / row.name


def is_here(row: Known) -> bool:
    """Whether the server is in the cache. Reads the manifest, not the files."""
    return (home(row) / manifest.NAME).exists()


def fetch(row: Known, clock: Clock) -> Path:
    """Make sure that the server is in the cache; returns its folder. Blocks while another process fetches.

    Terminal when it cannot be had on this machine (the error names what is missing), Transient when the network fails.
    """
    if is_here(row):
        return home(row)
    if row.of_stack:
        resolve.ensure([service(_STACK_ROW)], cache_folder(), clock)
        return home(row)
    folder = home(row).parent
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    with lock(folder / "lock", clock):
        if not is_here(row):
            _fetch(row, folder, clock)
    return home(row)


def _fetch(row: Known, folder: Path, clock: Clock) -> None:
    for old in folder.glob(f"{_SIDE}*"):
        shutil.rmtree(old, ignore_errors=True)
    side = folder / f"{_SIDE}{secrets.token_hex(4)}"
    made = side / "made"
    made.mkdir(parents=True)
    try:
        parts = (row.archive, row.packages)
        require_space(folder, sum(8 * part.download_mb for part in parts if part))
        if row.packages:
            debian.unpack(row.packages, side / "apt", made / "root", clock)
        if row.archive:
            maven.unpack(row.name, row.archive, side / "maven", made, clock)
        manifest.write(made)
        shutil.rmtree(home(row), ignore_errors=True)
        made.rename(home(row))
    finally:
        shutil.rmtree(side, ignore_errors=True)
