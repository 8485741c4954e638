"""From a pointer to an open bucket, on whatever host the task runs.

The store that lies there is a cache: it may stand at the pointer's version, at an attempt behind it that was never
committed, at an earlier version, or at nothing that helps. Another task may have it open still, as when Spark runs one
twice: then this one works on a store of its own, which is gone afterwards.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from include.state.bucket import EMPTY, META, UNDO, Bucket, Opened, unpack_undo
from include.state.engine import BrokenStore, Engine, OpenEngine
from include.state.objects import BucketObjects
from include.state.pointer import BucketPointer
from include.state.rocks import RocksEngine
from include.store.object_store import ObjectStore
from include.store.task_folder import sweep, task_folder

__all__ = ["StatePlace", "open_bucket"]

LOGGER: Final = logging.getLogger("lyrebird.state")


@dataclass(frozen=True, slots=True)
class StatePlace:
    """Where the buckets of one application's topic are.

    Args:
        folder: on each host, for the stores.
        prefix: of their objects.
    """

    folder: str
    prefix: str

    def objects(self, store: ObjectStore, stage: str, bucket: int) -> BucketObjects:
        """The objects of a bucket."""
        return BucketObjects(store, f"{self.prefix}{_name(stage, bucket)}/")


@contextmanager
def open_bucket(
    place: StatePlace,
    store: ObjectStore,
    stage: str,
    bucket: int,
    pointer: bytes | None,
    *,
    engine: OpenEngine = RocksEngine.open,
) -> Iterator[Bucket]:
    """Open a bucket at its committed version; the store is closed when the context ends.

    Args:
        place: where the application's buckets are.
        store: has their objects.
        stage: of the bucket.
        bucket: its number.
        pointer: the committed version; None: nothing was ever committed.
        engine: opens stores.

    Raises:
        BrokenStore: a snapshot does not hold the version that it is named by.
        Terminal: an object that the version is made of is gone or damaged, or the pointer is of another release.
        Transient: the object store does not answer, or the host has no room.
    """
    version = None if pointer is None else BucketPointer.from_bytes(pointer)
    objects, name = place.objects(store, stage, bucket), _name(stage, bucket)
    below = Path(place.folder)
    below.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        folder = below / name
        if not held.enter_context(_lock(below / f"{name}.lock")):
            sweep(below, f"{name}-own-")
            folder = held.enter_context(task_folder(below, f"{name}-own-")) / name
        scratch = folder.with_suffix(".snapshot")
        shutil.rmtree(scratch, ignore_errors=True)
        held.callback(shutil.rmtree, scratch, ignore_errors=True)
        # Also one that cannot be brought to the version is closed: its lock would keep the next try out of the folder.
        opened, how = _at(folder, version, objects, lambda at: held.enter_context(closing(engine(at))))
        yield Bucket(opened, objects, version, scratch, stagger=bucket, opened=how)


def _at(
    folder: Path, version: BucketPointer | None, objects: BucketObjects, engine: OpenEngine
) -> tuple[Engine, Opened]:
    """The store in this folder, brought to the version."""
    opened = None
    try:
        opened = engine(folder)
        how = _brought(opened, version, objects)
        if how is not None:
            return opened, how
    except BrokenStore as broken:
        LOGGER.warning("%s: it is fetched again", broken)
    if opened is not None:
        opened.close()
    shutil.rmtree(folder, ignore_errors=True)
    opened = _restored(folder, version, objects, engine)
    if _brought(opened, version, objects) is None:
        opened.close()
        raise BrokenStore("a snapshot does not hold the version that it is named by", folder=str(folder))
    return opened, "restored"


def _brought(store: Engine, version: BucketPointer | None, objects: BucketObjects) -> Opened | None:
    """Bring a store to the version by what it holds and by logs; None where neither helps."""
    lineage = [EMPTY] if version is None else [version.snapshot or EMPTY, *(log.uid for log in version.logs)]
    kept, undo = store.get([META, UNDO])
    here: str = EMPTY if kept is None else kept.decode()
    how: Opened = "ready"
    if here not in lineage and undo is not None:
        parent, old = unpack_undo(undo)
        if parent in lineage:
            store.write([*old, (META, parent.encode()), (UNDO, None)])
            here, how = parent, "undone"
    if here not in lineage:
        return None
    for uid in lineage[lineage.index(here) + 1 :]:
        store.write([*objects.log(uid), (META, uid.encode()), (UNDO, None)])
        how = "replayed"
    return how


def _restored(folder: Path, version: BucketPointer | None, objects: BucketObjects, engine: OpenEngine) -> Engine:
    """A new store with the version's snapshot, if it rests on one."""
    if version is None or version.snapshot is None:
        return engine(folder)
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    objects.fetch(objects.snapshot(version.snapshot), part)
    part.rename(folder)
    return engine(folder)


@contextmanager
def _lock(file: Path) -> Iterator[bool]:
    """Whether this process has the bucket's store for itself; the kernel takes the lock back when it ends."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _name(stage: str, bucket: int) -> str:
    return f"{stage}-{bucket:04}"
