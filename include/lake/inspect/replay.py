"""Finds what became of a record of a cut, by the logic that made the cut and the records as a backup has them.

Formats that keep no offsets do not tell which of their lines a record is, and no object tells filtered records from
offsets that hold none. Parsers answer by content and configuration alone, so asking them again tells both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from include.errors import Terminal
from include.lake.inspect.object_reader import open_contents
from include.lake.message import Message
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.protocol.object_key import QUARANTINE
from include.lake.protocol.pointer import read_pointer
from include.lake.protocol.read_cuts import read_cuts
from include.lake.writing.log_cuts import CutLogic, CutLogics
from include.store.object_store import ObjectStore

__all__ = ["CutReplay", "Fate", "FateKind", "backed_up", "fate_of"]

FateKind = Literal["kept", "filtered", "refused", "none"]
"""kept: in the object at `key`; refused: in the quarantine object; none: the log had no record at this offset."""


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of a record; `index` is its place in the object, from 0, where it is in one."""

    kind: FateKind
    key: str = ""
    index: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CutReplay:
    """Asks the logics of a group about records that a backup has, below the prefix `backup` (None: there is none)."""

    store: ObjectStore
    logics: Callable[[], CutLogics]
    backup: str | None

    def __call__(self, chain: ChainKey, commit: Commit, offset: int) -> Fate | str:
        """What became of the record at `offset` in this cut, or why that cannot be told."""
        if self.backup is None:
            return "no backup group has this topic"
        topic = TopicKey(self.backup, chain.of.topic, chain.of.topic_id)
        try:
            logic = self.logics().of(commit.config)
            records = backed_up(self.store, topic, chain.partition, commit.first, commit.next)
        except Terminal as error:
            return str(error)
        found = fate_of(chain, commit, logic, records, offset)
        return f"the backup has {len(records)} of its {commit.n_records} records" if found is None else found


def backed_up(store: ObjectStore, topic: TopicKey, partition: int, first: int, until: int) -> list[Message]:
    """The records of [first, until) as a backup of the topic has them, in order; those that it has, where it is behind.

    Raises `Terminal` for a backup that is damaged or has a hole there.
    """
    return list(_backed_up(store, topic, partition, first, until))


def _backed_up(store: ObjectStore, topic: TopicKey, partition: int, first: int, until: int) -> Iterator[Message]:
    for _, commit in read_cuts(store, topic, read_pointer(store, topic), partition, first):
        if commit.first >= until:
            return
        for file in commit.files:
            if file.first is None or file.last is None or file.last < first or file.first >= until:
                continue
            stored = store.get(file.key)
            if stored is None:
                raise Terminal(
                    "an object of a commit is not there",
                    key=file.key,
                    fix=f"Run `lyrebird audit chain {topic.topic}`.",
                )
            yield from (each for each in open_contents(stored.body, file.key).messages if first <= each.offset < until)


def fate_of(chain: ChainKey, commit: Commit, logic: CutLogic, records: Sequence[Message], offset: int) -> Fate | None:
    """The fate of the record at `offset` in a cut; `records` are all of the cut's.

    None when they are not all that the cut read (the backup is behind, or another attempt saw more): then nobody
    can tell.
    """
    if len(records) != commit.n_records:
        return None
    before = [each for each in records if each.offset <= offset]
    if not before or before[-1].offset != offset:
        return Fate("none")
    batch = logic.sorter(commit.first)(before)
    refused = {message.offset: str(why.details.get("reason", why.message)) for message, why in batch.refused}
    placed: dict[tuple[str, ...], list[int]] = {}
    for names, kept in batch.kept.items():
        for message in kept:
            why = logic.kept.refuses(message)
            if why:
                refused[message.offset] = why
            else:
                placed.setdefault((*names, *logic.kept.names(message)), []).append(message.offset)
    if offset in refused:
        key = str(chain.data((QUARANTINE,), commit.first, logic.aside.extension))
        return Fate("refused", key, sorted(refused).index(offset), refused[offset])
    for names, offsets in placed.items():
        if offset in offsets:
            key = str(chain.data(names, commit.first, logic.kept.extension))
            return Fate("kept", key, sorted(offsets).index(offset))
    return Fate("filtered")
