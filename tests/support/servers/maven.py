"""Archives of a Maven repository, by the Ivy that the stack uses, held against a digest, unpacked in part."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from include.clock import Clock
from include.errors import Terminal
from include.local.programs import ivy, manifest
from include.local.services import IvyPackage, Service
from tests.support.servers.catalogue import Archive

__all__ = ["unpack"]


def unpack(name: str, archive: Archive, work: Path, target: Path, clock: Clock) -> None:
    """Download `archive` by way of `work` and unpack the part that is kept into `target`.

    Terminal when the file is not what it should be or there is no Java, Transient when the network fails.
    """
    row = Service(
        name=name,
        version=archive.module.version,
        artefact=IvyPackage((archive.module,), archive.download_mb, 0),
        ports=(),
        address="",
        ready="",
        memory_mb=0,
        image="",
        processes=(),
    )
    ivy.fetch([row], work / "ivy", work / "lib", clock)
    (file,) = (work / "lib" / name).iterdir()
    digest = manifest.sha256(file)
    if digest != archive.sha256:
        raise Terminal(
            f"download of {name}: {file.name} has the SHA-256 {digest}, not {archive.sha256}",
            fix="Fetch again; if it stays so, the repository or a proxy changes files.",
        )
    _unpack(file, PurePosixPath(archive.prefix), archive.keep, target)


def _unpack(file: Path, prefix: PurePosixPath, keep: tuple[str, ...], target: Path) -> None:
    with zipfile.ZipFile(file) as opened:
        for entry in opened.infolist():
            path = PurePosixPath(entry.filename)
            if entry.is_dir() or not path.is_relative_to(prefix):
                continue
            inside = path.relative_to(prefix)
            if ".." in inside.parts or not any(inside.is_relative_to(part) for part in keep):
                continue
            to = target / inside
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(opened.read(entry))
            # Jars carry no modes.
            to.chmod(0o755 if inside.parts[0] == "bin" else 0o644)
