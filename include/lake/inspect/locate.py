"""Finds the object of a record in its group and its place in it, or the reason why it is in none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from include.lake.definition import FormatDefinition
from include.lake.inspect.object_reader import open_contents
from include.lake.inspect.replay import Fate
from include.lake.message import Message
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit, CutObject, Intent
from include.lake.protocol.inventory import chain_head, cut_at
from include.lake.protocol.pointer import ReadersPointer, read_pointer
from include.lake.writing.cut_files import REFUSED_HEADER
from include.store.object_store import ObjectStore, StoredObject

__all__ = ["AskCommit", "FoundState", "LocatedRecord", "find_record", "refusal"]

FoundState = Literal[
    "stored", "refused", "filtered", "no record", "not told", "gap", "under way", "not yet", "missing", "forgotten"
]
"""stored: in an object, at `index` of it where that can be told; refused: in the quarantine object; filtered: dropped
by the group's rules; no record: the log had none at this offset (compaction, a marker, an aborted transaction); not
told: in no object that keeps offsets, and nothing tells more; gap: the log had lost it before the cut was read; under
way: its cut is begun; not yet: not committed; missing: it should be there and is not."""

AskCommit = Callable[[ChainKey, Commit, int], Fate | str]
"""(chain, commit of the cut, offset) → what its logic makes of the record, or why that cannot be told."""


@dataclass(frozen=True, slots=True)
class LocatedRecord:
    """The place of one offset of one life of a topic in a group. The cut is [`first`, `next`) of `generation`."""

    topic: TopicKey
    partition: int
    offset: int
    state: FoundState
    text: str
    generation: int | None = None
    first: int | None = None
    next: int | None = None
    key: str = ""
    index: int | None = None


def find_record(
    store: ObjectStore,
    topic: TopicKey,
    partition: int,
    offset: int,
    declared: FormatDefinition | None = None,
    ask: AskCommit | None = None,
) -> LocatedRecord:
    """Finds the place of a record that readers read.

    Takes a few requests and, where offsets are left out in it, the object that may hold the record.

    Args:
        store: the bucket of the lake.
        topic: one life of a topic, below the prefix of its group.
        partition: number of the Kafka partition.
        offset: the record's.
        declared: the format that the deployment declares for the topic; None: it declares none.
        ask: is asked where objects do not tell; None: nobody is.

    Raises:
        Terminal: an object is damaged, or one of the chain cannot be read.
        Transient: the store does not answer.
        BackPressure: the store asks to slow down.
    """
    pointer = read_pointer(store, topic)
    if offset < (kept_from := pointer.floor(partition)):
        return LocatedRecord(topic, partition, offset, "forgotten", f"the lake keeps offsets from {kept_from} on")
    for generation in sorted({entry.generation for entry in pointer.entries}, reverse=True):
        chain = ChainKey(topic, generation, partition)
        cut = cut_at(store, chain, offset)
        if cut is None or pointer.generation_of(partition, cut.first) != generation:
            continue
        if not cut.committed:
            if offset < _promised(store, chain, cut.first):
                text = f"the cut that begins at {cut.first} is promised, and not committed yet"
                return LocatedRecord(topic, partition, offset, "under way", text, generation, cut.first)
            continue
        commit = Chain(store, chain).commit(cut.first)
        if commit is not None and offset < commit.next:
            return _in_cut(store, chain, commit, offset, declared, ask)
    return _outside(store, topic, pointer, partition, offset)


def _promised(store: ObjectStore, chain: ChainKey, first: int) -> int:
    """Where the cut ends whose intent alone stands; `first` when that is gone."""
    found = store.get(chain.intent(first))
    return Intent.parse(found.body, chain, first).end if found else first


def _outside(
    store: ObjectStore, topic: TopicKey, pointer: ReadersPointer, partition: int, offset: int
) -> LocatedRecord:
    live = pointer.live
    if live is None:
        return LocatedRecord(topic, partition, offset, "not yet", "the group has nothing of this topic")
    chain = ChainKey(topic, live.generation, partition)
    start = pointer.start(live, partition)
    head = chain_head(store, chain, start, near=offset)
    if offset < head.next:
        text = f"no cut has it, though the chain goes on to {head.next}: run `lyrebird audit chain {topic.topic}`"
        return LocatedRecord(topic, partition, offset, "missing", text, live.generation)
    see = f"`lyrebird lake status --topic {topic.topic}` says what Kafka has"
    if head.last is None and not start:
        return LocatedRecord(
            topic, partition, offset, "not yet", f"nothing of this partition is stored; {see}", live.generation
        )
    text = f"the partition is committed up to {head.next}, which is {offset - head.next} offsets before this one; {see}"
    return LocatedRecord(topic, partition, offset, "not yet", text, live.generation)


def _in_cut(
    store: ObjectStore,
    chain: ChainKey,
    commit: Commit,
    offset: int,
    declared: FormatDefinition | None,
    ask: AskCommit | None,
) -> LocatedRecord:
    def found(state: FoundState, text: str, key: str = "", index: int | None = None) -> LocatedRecord:
        place = chain.generation, commit.first, commit.next
        return LocatedRecord(chain.of, chain.partition, offset, state, text, *place, key, index)

    silent: list[CutObject] = []
    for file in commit.files:
        if file.first is None or file.last is None or not file.first <= offset <= file.last:
            continue
        refused = chain.parse_data(file.key, commit.first).refused
        dense = file.records == _span(file) and not refused
        # Each offset between its first and its last has a record in it: no need to read it.
        stored = store.head(file.key) if dense else store.get(file.key)
        if stored is None:
            fix = f"run `lyrebird audit chain {chain.of.topic}`"
            return found("missing", f"an object of its commit that may have it is not there: {fix}", file.key)
        if not isinstance(stored, StoredObject):
            return found("stored", "", file.key, offset - file.first)
        contents = open_contents(stored.body, file.key, declared)
        if not contents.offsets:
            silent.append(file)
            continue
        here = next(((at, message) for at, message in enumerate(contents.messages) if message.offset == offset), None)
        if here is not None:
            index, record = here
            why = f"it was refused: {refusal(record)}" if refused else ""
            return found("refused" if refused else "stored", why, file.key, index)
    gap = next((each for each in commit.gaps if each.first <= offset < each.until), None)
    if gap is not None:
        when = (
            "before the topic's chain began" if gap.kind == "before" else "before it was stored: retention was faster"
        )
        return found("gap", f"the log had lost offsets {gap.first} to {gap.until - 1} {when}")
    if not silent and not commit.filtered:
        return found("no record", _NO_RECORD)
    fate = ask(chain, commit, offset) if ask else "a backup of the topic would tell"
    if isinstance(fate, Fate):
        state, text = _TOLD[fate.kind]
        return found(state, f"it was refused: {fate.reason}" if fate.reason else text, fate.key, fate.index)
    if silent:
        keys = ", ".join(file.key for file in silent)
        return found("not told", f"the format keeps no offsets; it is in {keys}, or filtered ({fate})")
    return found("not told", f"it is in no object: filtered, as {commit.filtered} of the cut were, or none ({fate})")


_NO_RECORD = "the log had no record at this offset: compaction, a marker or an aborted transaction"
_TOLD: dict[str, tuple[FoundState, str]] = {
    "kept": ("stored", "told by the parser and the backup, as the format keeps no offsets"),
    "refused": ("refused", ""),
    "filtered": ("filtered", "told by the parser and the backup"),
    "none": ("no record", _NO_RECORD),
}


def _span(file: CutObject) -> int:
    return (file.last or 0) - (file.first or 0) + 1


def refusal(record: Message) -> str:
    """Why a record of a quarantine object was refused: its last header, behind those that it came with."""
    name, value = record.headers[-1] if record.headers else ("", None)
    return (value or b"").decode("utf-8", "replace") if name == REFUSED_HEADER else ""
