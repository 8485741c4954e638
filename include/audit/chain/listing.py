"""Everything that stands in the chain folder of one life of a topic, by one listing: 1,000 keys a request."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Protocol

from typing_extensions import override

from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.store.object_store import ObjectInfo, ObjectStore

__all__ = ["ChainFolder", "LifeListing", "ProgressListener", "SilentListener", "kept_of", "list_life"]

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_TICK: Final = 1000


class ProgressListener(Protocol):
    """Hears how far a long look is."""

    def begin(self, what: str, total: int | None = None) -> None:
        """Another part begins, of so many steps where that is known."""

    def advance(self, steps: int) -> None:
        """So many steps more are done."""


class SilentListener(ProgressListener):
    """A `ProgressListener` that nobody watches."""

    @override
    def begin(self, what: str, total: int | None = None) -> None:
        pass

    @override
    def advance(self, steps: int) -> None:
        pass


@dataclass(slots=True)
class ChainFolder:
    """The objects of one chain, by the `first` that they are named after; `strangers` are names that none has."""

    key: ChainKey
    commits: dict[int, ObjectInfo] = field(default_factory=dict)
    intents: dict[int, ObjectInfo] = field(default_factory=dict)
    summaries: dict[int, ObjectInfo] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)


@dataclass(slots=True)
class LifeListing:
    """One life of a topic; chains by generation and partition. `others` are objects of no chain."""

    topic: TopicKey
    pointer: bool = False
    chains: dict[tuple[int, int], ChainFolder] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    def folder(self, generation: int, partition: int) -> ChainFolder:
        """The chain's folder, empty where nothing of it was listed."""
        found = self.chains.get((generation, partition))
        if found is None:
            found = self.chains[generation, partition] = ChainFolder(ChainKey(self.topic, generation, partition))
        return found


def kept_of(folder: ChainFolder, floor: int) -> ChainFolder:
    """The chain without what is forgotten: summaries stand for whole thousands, so it begins with one of these."""
    border = max((first for first in folder.summaries if first <= floor), default=0)
    return ChainFolder(
        folder.key,
        {first: info for first, info in folder.commits.items() if first >= border},
        {first: info for first, info in folder.intents.items() if first >= border},
        {first: info for first, info in folder.summaries.items() if first >= border},
        folder.strangers,
    )


def list_life(store: ObjectStore, topic: TopicKey, progress: ProgressListener) -> LifeListing:
    """What stands there now, sorted apart by name alone; the store's errors as they come."""
    listing = LifeListing(topic)
    head = f"{topic}/"
    for number, info in enumerate(store.list(head), 1):
        _place(listing, info, info.key[len(head) :].split("/"))
        if not number % _TICK:
            progress.advance(_TICK)
    return listing


def _place(listing: LifeListing, info: ObjectInfo, parts: list[str]) -> None:
    if parts == ["current"]:
        listing.pointer = True
    elif len(parts) == 3 and _NUMBER.fullmatch(parts[0]) and _NUMBER.fullmatch(parts[1]):
        folder = listing.folder(int(parts[0]), int(parts[1]))
        first, kind = _cut(parts[2])
        if kind == "commit":
            folder.commits[first] = info
        elif kind == "intent":
            folder.intents[first] = info
        else:
            folder.strangers.append(info.key)
    elif len(parts) == 4 and parts[1] == "summary" and _NUMBER.fullmatch(parts[0]) and _NUMBER.fullmatch(parts[2]):
        folder = listing.folder(int(parts[0]), int(parts[2]))
        first, kind = _cut(parts[3])
        if kind == "commits":
            folder.summaries[first] = info
        else:
            folder.strangers.append(info.key)
    elif parts[0] != "index" and not (
        len(parts) == 3 and parts[1] == "hint" and _NUMBER.fullmatch(parts[0]) and _NUMBER.fullmatch(parts[2])
    ):
        listing.others.append(info.key)


def _cut(name: str) -> tuple[int, str]:
    """`first` and kind; an empty kind where it is no such name."""
    number, _, kind = name.partition(".")
    if len(number) == 20 and number.isascii() and number.isdigit():
        return int(number), kind
    return 0, ""
