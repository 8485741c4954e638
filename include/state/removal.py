"""Removes what no committed version is made of: of attempts that were not committed, and of versions gone by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from include.state.opening import StatePlace
from include.state.pointer import BucketPointer
from include.store.object_store import ObjectStore

__all__ = ["Removed", "remove_unnamed"]


class Removed(NamedTuple):
    """How many objects went, and their bytes."""

    objects: int
    bytes: int


def remove_unnamed(
    store: ObjectStore,
    place: StatePlace,
    pointers: Callable[[], Iterable[tuple[tuple[str, int], bytes]]],
    *,
    before_us: int,
    dry_run: bool = False,
) -> Removed:
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
        return Removed(0, 0)
    named: set[str] = set()
    for (stage, bucket), pointer in pointers():
        named |= place.objects(store, stage, bucket).named(BucketPointer.from_bytes(pointer))
    gone = [info for info in old if info.key not in named]
    if not dry_run:
        for info in gone:
            store.delete(info.key)
    return Removed(len(gone), sum(info.size_bytes for info in gone))
