"""Where servers of a test keep their files: another account's, where root runs the tests."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from include.local.site import Site
from include.local.stack import Stack

__all__ = ["Started", "files_of", "opened", "passable", "started"]

Started = tuple[Path, dict[str, str], Stack]
"""The state folder, the LYREBIRD_* names, the stack."""


@contextmanager
def opened(state: Path, *, kafka_login: bool = True) -> Iterator[Site]:
    """A site on free ports; what lies outside of its state folder goes at the end."""
    site = Site.open(state, free_ports=True, keep_ports=False, kafka_login=kafka_login)
    try:
        yield site
    finally:
        if site.data_root != site.state:
            shutil.rmtree(site.data_root, ignore_errors=True)


@contextmanager
def started(state: Path, *names: str) -> Iterator[Started]:
    """A stack of these services, which ask for their passwords, in a folder of its own."""
    stack = Stack(state, free_ports=True)
    try:
        yield state, stack.up(names), stack
    finally:
        stack.down()


@contextmanager
def passable() -> Iterator[Path]:
    """A folder that other accounts may pass, which `tmp_path` is not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


def files_of(name: str, state: Path) -> Path:
    """The folder of a service of the stack in `state`, once that has been started."""
    given = Path(json.loads((state / "stack.json").read_text())["data_root"]) / name
    return given if given.exists() else state / name
