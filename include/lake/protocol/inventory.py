"""Lists what a bucket has of a group: topics, their partitions, the end of a chain, the cut that an offset is in.

Looks and never writes, so that whoever may only read can ask. Calls block; the store's errors come as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

import orjson

from include.lake.protocol.canonical import offset as offset_of
from include.lake.protocol.chain import give_up
from include.lake.protocol.chain_key import ChainKey, TopicKey, parse_cut_key
from include.lake.protocol.commit_protocol import Head, find_head
from include.lake.protocol.object_key import digits
from include.lake.protocol.runner import Runner
from include.settings.names import require_known
from include.store.object_store import ObjectStore

__all__ = ["BegunCut", "chain_head", "cut_at", "require_stored", "stored_partitions", "stored_topics"]

_STEP: Final = 4096
_WIDER: Final = 16
# Keys that a store lists at once.
_PAGE: Final = 1000


class BegunCut(NamedTuple):
    """A cut of which something stands: its commit, or so far an intent alone."""

    first: int
    committed: bool


def stored_topics(store: ObjectStore, prefix: str) -> Iterator[TopicKey]:
    """Each life of each topic that has a chain or a pointer below `prefix`; a listing for each."""
    for folder in _folders(store, f"{prefix}/_chain/" if prefix else "_chain/"):
        topic, _, topic_id = folder.partition("~")
        yield TopicKey(prefix, topic, topic_id)


def require_stored(store: ObjectStore, prefixes: Iterable[str], topic: str) -> None:
    """Raise `SettingsError` when nothing of the topic is stored below any prefix, with the nearest names that are."""
    folders = [(prefix, f"{prefix}/_chain/" if prefix else "_chain/") for prefix in prefixes]
    if not any(next(iter(store.list(f"{folder}{topic}~")), None) for _, folder in folders):
        known = {life.topic for prefix, _ in folders for life in stored_topics(store, prefix)}
        require_known(topic, known, "nothing of this topic is stored", prefixes=sorted(prefix for prefix, _ in folders))


def stored_partitions(store: ObjectStore, topic: TopicKey, generation: int) -> list[int]:
    """Kafka partitions of which a generation has a cut, or the beginning of one."""
    return sorted(int(folder) for folder in _folders(store, f"{topic}/{generation}/") if folder.isdecimal())


def chain_head(store: ObjectStore, chain: ChainKey, start: int, *, near: int | None = None) -> Head:
    """The end of the chain, `start` when it has no commit; as `Chain.head`, but leaves no hint behind.

    `near`: an offset that is not far from there, or beyond; then few requests do, however long the chain is.
    """
    known = _hint(store, chain) if near is None else _committed_at(store, chain, near)
    return Runner(store, give_up).run(find_head(chain, start, known))


def _committed_at(store: ObjectStore, chain: ChainKey, offset: int) -> int | None:
    cut = cut_at(store, chain, offset)
    if cut is not None and not cut.committed:
        # One is begun at most: where the last commit ends.
        cut = cut_at(store, chain, cut.first - 1) if cut.first else None
    return None if cut is None else cut.first


def _hint(store: ObjectStore, chain: ChainKey) -> int | None:
    found = store.get(chain.hint)
    try:
        return offset_of(orjson.loads(found.body)["first"]) if found else None
    except (KeyError, TypeError, ValueError):
        # Advice only: what cannot be read is none.
        return None


def cut_at(store: ObjectStore, chain: ChainKey, offset: int) -> BegunCut | None:
    """The last cut of the chain that begins at `offset` or before it.

    Some listings of a page each, however long the chain is and however far behind its end the offset lies.
    """
    step, low = _STEP, offset + 1
    while low > 0:
        low = max(0, offset - step)
        found, last = _page(store, chain, low, offset)
        if last:
            return found
        if found is not None:
            return _last_between(store, chain, found, offset)
        step *= _WIDER
    return None


def _last_between(store: ObjectStore, chain: ChainKey, known: BegunCut, offset: int) -> BegunCut:
    """The last cut at `offset` or before it, by halves, where `known` is one of those."""
    high = offset
    while known.first < high:
        middle = (known.first + high + 1) // 2
        found, last = _page(store, chain, middle, offset)
        if found is None:
            high = middle - 1
        else:
            known = found
            if last:
                break
    return known


def _page(store: ObjectStore, chain: ChainKey, low: int, high: int) -> tuple[BegunCut | None, bool]:
    """The last cut of the first page of those in [low, high], and whether it is surely the last of all of them."""
    last: BegunCut | None = None
    listed = store.list(f"{chain}/", start_after=f"{chain}/{digits(low - 1)}.z" if low else "")
    taken = 0
    for info in islice(listed, _PAGE):
        first, kind = parse_cut_key(info.key, chain)
        if first > high:
            return last, last is not None
        taken += 1
        # A commit sorts before its intent.
        if kind == "commit" or last is None or last.first != first:
            last = BegunCut(first, kind == "commit")
    return last, last is not None and taken < _PAGE


def _folders(store: ObjectStore, folder: str) -> Iterator[str]:
    """Names right below `folder`, one listing for each."""
    after = ""
    while (info := next(iter(store.list(folder, start_after=after)), None)) is not None:
        name, slash, _ = info.key.removeprefix(folder).partition("/")
        if slash:
            yield name
        # "0" sorts right behind "/": all that lies in this folder is passed over.
        after = f"{folder}{name}0" if slash else info.key
