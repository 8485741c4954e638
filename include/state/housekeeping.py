"""Removes what no committed version of a state is made of, now and then, beside the work that makes new ones."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from include.clock import Clock
from include.errors import LyrebirdError
from include.state.opening import StatePlace
from include.state.pointer import BucketPointer
from include.store.object_store import ObjectStore

__all__ = ["KEPT_S", "RemovalCounts", "housekeeping", "remove_unnamed"]

LOGGER: Final = logging.getLogger("lyrebird.state")
KEPT_S: Final = 3600.0
"""What no pointer names is kept so long: longer than any batch takes."""
_EVERY_S: Final = 600.0


class RemovalCounts(NamedTuple):
    """How many objects went, and their bytes."""

    objects: int
    bytes: int


@contextmanager
def housekeeping(
    store: ObjectStore,
    place: StatePlace,
    pointers: Callable[[], Iterable[tuple[tuple[str, int], bytes]]],
    clock: Clock,
    *,
    every_s: float = _EVERY_S,
    kept_s: float = KEPT_S,
    done: Callable[[RemovalCounts], None] = lambda _removed: None,
) -> Iterator[None]:
    """While the block runs: every `every_s`, from the begin on, remove what no committed pointer names.

    Args:
        store: has the objects.
        place: whose objects.
        pointers: reads the committed pointers, each time anew; called by a thread of its own.
        clock: tells what is old.
        every_s: between two looks.
        kept_s: younger objects stay.
        done: hears of each look.

    What a look does not get done, as a server is away, the next one does.
    """
    ended = threading.Event()

    def look() -> None:
        while True:
            try:
                before_us = clock.now_us() - round(kept_s * 1e6)
                removed = remove_unnamed(store, place, pointers, before_us=before_us)
                if removed.objects:
                    LOGGER.info("removed %d objects of %s, %.1f MB", removed.objects, place.prefix, removed.bytes / 1e6)
                done(removed)
            except LyrebirdError as error:
                LOGGER.warning("old objects of a state stay for now: %s", error)
            if ended.wait(every_s):
                return

    thread = threading.Thread(target=look, name="housekeeping", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def remove_unnamed(
    store: ObjectStore,
    place: StatePlace,
    pointers: Callable[[], Iterable[tuple[tuple[str, int], bytes]]],
    *,
    before_us: int,
    dry_run: bool = False,
) -> RemovalCounts:
    """Remove the objects below the place's prefix that no pointer names.

    Args:
        store: has them.
        place: whose objects.
        pointers: reads ((stage, bucket), pointer) of all that is committed, from where it is. Asked after the
            objects are listed: so a process that was overtaken long ago removes nothing that its follower made.
        before_us: what was written later stays, as a batch may be about to commit it; longer ago than the longest
            batch takes.
        dry_run: only count.
    """
    old = [info for info in store.list(place.prefix) if info.modified_us is not None and info.modified_us < before_us]
    if not old:
        return RemovalCounts(0, 0)
    named: set[str] = set()
    for (stage, bucket), pointer in pointers():
        named |= place.objects(store, stage, bucket).named(BucketPointer.from_bytes(pointer))
    gone = [info for info in old if info.key not in named]
    if not dry_run:
        for info in gone:
            store.delete(info.key)
    return RemovalCounts(len(gone), sum(info.size_bytes for info in gone))
