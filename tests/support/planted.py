"""Secrets that a test plants, and the search for them in all that a program shows.

A secret is found by its core: letters, digits, - and _, which no way of writing changes, as URLs' quotes and the
escapes of JSON, YAML and HTML do with others. What hides letters is looked for by itself: base64 (of a login, too),
bytes as hex and as numbers.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil

__all__ = ["appearances", "commands_of", "files_below", "planted", "written_as"]

_LEAST: Final = 8


def planted(kind: str) -> str:
    """A secret of this kind, with characters that each way of writing escapes."""
    return f"""p"l'a&n<t/e+d%{"".join(re.findall("[A-Za-z0-9]+", kind))}Planted23:\\"""


def written_as(secret: str) -> tuple[bytes, ...]:
    """What a text has in it that shows the secret."""
    core = max(re.findall("[A-Za-z0-9_-]+", secret), key=len).encode()
    if len(core) < _LEAST:
        raise ValueError("too short to be told from other words")
    shifted = (base64.b64encode(b"\0" * shift + core)[-(-shift * 8 // 6) :].rstrip(b"=")[:-1] for shift in range(3))
    numbers = (join.join(map(str, core)).encode() for join in (", ", ","))
    return core, *shifted, core.hex().encode(), *numbers


def appearances(secrets: Mapping[str, str], said: Iterable[tuple[str, bytes]]) -> list[str]:
    """`kind in place: what stands around it`, of each secret that what was said shows."""
    needles = [(kind, needle) for kind, secret in secrets.items() for needle in written_as(secret)]
    found = []
    for place, content in said:
        for kind, needle in needles:
            at = content.find(needle)
            if at >= 0:
                found.append(f"{kind} in {place}: {content[max(0, at - 80) : at + 20]!r}")
    return found


def files_below(folder: Path, *without: str) -> Iterator[tuple[str, bytes]]:
    """Each file and its content, but for those that are named `without`; their names are said, too."""
    for above, folders, files in os.walk(folder, onerror=_unless_gone):
        for name in (*folders, *files):
            path = Path(above, name)
            yield "a file's name", str(path).encode()
            if path.is_file() and name not in without:
                with contextlib.suppress(FileNotFoundError):
                    yield str(path), path.read_bytes()


def _unless_gone(error: OSError) -> None:
    # What is gone meanwhile shows nothing.
    if not isinstance(error, FileNotFoundError):
        raise error


def commands_of(pid: int) -> Iterator[tuple[str, bytes]]:
    """What the list of processes shows of a process and of all below it."""
    above = psutil.Process(pid)
    processes: list[Any] = [above, *above.children(recursive=True)]
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            yield f"the command of {each.pid}", Path(f"/proc/{each.pid}/cmdline").read_bytes()
