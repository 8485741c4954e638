"""Records and checks the files of an installed service: size, time and SHA-256 of each, kept beside them.

A file whose size and time are as recorded counts as whole; one whose time alone differs is hashed again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from include.errors import Terminal

__all__ = ["NAME", "sha256", "verify_downloads", "whole", "write"]

NAME = "manifest.json"


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(folder: Path) -> None:
    """Record every file below `folder`; the manifest is the last thing written into an installation."""
    files: dict[str, list[int | str]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        status = path.stat()
        files[str(path.relative_to(folder))] = [status.st_size, status.st_mtime_ns, sha256(path)]
    (folder / NAME).write_text(json.dumps({"files": files}))


def whole(folder: Path) -> bool:
    """Whether `folder` is an installation with every file as it was installed."""
    try:
        recorded = json.loads((folder / NAME).read_text())["files"]
    except (FileNotFoundError, ValueError, KeyError):
        return False
    for name, (size, mtime_ns, digest) in recorded.items():
        path = folder / name
        try:
            status = path.stat()
        except FileNotFoundError:
            return False
        if status.st_size != size:
            return False
        if status.st_mtime_ns != mtime_ns and sha256(path) != digest:
            return False
    return bool(recorded)


def verify_downloads(service: str, folder: Path) -> None:
    """Hold downloaded files against the digests that came with the project (artefacts.json).

    Terminal when a file is missing, is not expected, or has another content.
    """
    expected: dict[str, str] = json.loads(Path(__file__).with_name("artefacts.json").read_text(encoding="utf-8"))[
        service
    ]
    found = {path.name: path for path in folder.iterdir()} if folder.exists() else {}
    strange = sorted(set(expected) ^ set(found))
    wrong = [name for name in sorted(set(expected) & set(found)) if sha256(found[name]) != expected[name]]
    for name in strange or wrong:
        what = "is missing or not expected" if strange else "has another content than it should"
        raise Terminal(
            f"download of {service}: {name} {what}",
            fix="Run `lyrebird up` again; if it stays so, the repository or a proxy changes files.",
        )
