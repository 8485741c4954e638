"""The data objects below a topic's folder against those that commits list: none may be missing, changed or extra."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Final

from include.audit.chain.finding import RULE_TOOK, Findings
from include.audit.chain.listing import ProgressListener
from include.audit.chain.walk import WalkedChain
from include.errors import Terminal
from include.lake.finalising.marker import LATE, SUCCESS
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit, Intent
from include.lake.protocol.generations import lives as lives_of
from include.lake.protocol.object_key import ObjectKey, topic_path
from include.lake.protocol.pointer import ReadersPointer, read_pointer
from include.store.object_store import ObjectStore

__all__ = ["LifeChains", "ObjectCheck", "check_objects", "labels_differ"]

_MARKERS: Final = {SUCCESS, LATE}
_TICK: Final = 1000


@dataclass(frozen=True)
class LifeChains:
    """One life of a topic with its pointer and its chains, by generation and partition."""

    topic: TopicKey
    pointer: ReadersPointer
    chains: Mapping[tuple[int, int], WalkedChain]


@dataclass
class ObjectCheck:
    """What was counted. `replaced`: gone, and readers are sent elsewhere; `under_way`: of cuts not committed yet.

    `absent` and `changed` are keys that there is a finding of.
    """

    objects: int = 0
    bytes: int = 0
    replaced: int = 0
    under_way: int = 0
    in_holes: int = 0
    absent: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)


def check_objects(
    store: ObjectStore,
    topic: str,
    prefix: str,
    lives: Sequence[LifeChains],
    findings: Findings,
    progress: ProgressListener,
) -> ObjectCheck:
    """List the objects of the topic's folder and compare; to be called after the chains were listed.

    What is committed meanwhile is asked for again, so it may run beside writers.

    Args:
        store: the group's bucket.
        topic: name of the Kafka topic.
        prefix: of the group's keys.
        lives: the topic's lives with their walked chains.
        findings: takes what is wrong.
        progress: hears of listed objects.

    Raises:
        Terminal: a pointer cannot be read any more, or the store refuses access.
        Transient: the store does not answer.
    """
    check = ObjectCheck()
    expected = {key: size for life in lives for chain in life.chains.values() for key, size in chain.expected.items()}
    unjudged = {key for life in lives for chain in life.chains.values() for key in chain.unjudged}
    extra: list[str] = []
    for number, info in enumerate(store.list(topic_path(prefix, topic)), 1):
        size = expected.pop(info.key, None)
        if size is None:
            extra.append(info.key)
        else:
            check.objects += 1
            check.bytes += info.size_bytes
            if size != info.size_bytes:
                _changed(_chain_of(info.key, prefix, lives), info.key, size, info.size_bytes, check, findings)
        if not number % _TICK:
            progress.advance(_TICK)
    now = cache(partial(read_pointer, store))
    for key in sorted(expected):
        _missing(store, key, prefix, lives, now, check, findings)
    judge = _Extra(store, topic, prefix, lives, check, findings)
    for key in extra:
        if key not in unjudged:
            judge(key)
    return check


def labels_differ(
    store: ObjectStore, shas: Mapping[str, str], progress: ProgressListener, at_once: int = 16
) -> dict[str, str | None]:
    """Of these objects (key → SHA-256) those that were not put as their commit says, with what their metadata have.

    One request each; one that is gone is left out.
    """

    def label(key: str) -> tuple[str, bool, str | None]:
        info = store.head(key)
        return key, info is not None, (info.metadata or {}).get("sha256") if info else None

    differing: dict[str, str | None] = {}
    with ThreadPoolExecutor(at_once) as pool:
        for number, (key, there, sha) in enumerate(pool.map(label, shas), 1):
            if there and sha != shas[key]:
                differing[key] = sha
            if not number % 100:
                progress.advance(100)
    return differing


def _chain_of(key: str, prefix: str, lives: Sequence[LifeChains]) -> tuple[ObjectKey, LifeChains | None]:
    name = ObjectKey.parse(key, prefix)
    here = (name.generation, name.partition)
    for life in lives:
        if here in life.chains:
            return name, life
    numbered = (life for life in lives if any(each.generation == name.generation for each in life.pointer.reserved))
    return name, next(numbered, None)


def _changed(
    place: tuple[ObjectKey, LifeChains | None], key: str, size: int, found: int, check: ObjectCheck, findings: Findings
) -> None:
    name, life = place
    assert life is not None  # noqa: S101 - it was expected of one of its chains
    check.changed.add(key)
    findings.add(
        "object changed",
        ChainKey(life.topic, name.generation, name.partition),
        f"has {found} bytes, its commit says {size}: somebody wrote over it",
        first=name.first,
        key=key,
    )


def _missing(
    store: ObjectStore,
    key: str,
    prefix: str,
    lives: Sequence[LifeChains],
    now: Callable[[TopicKey], ReadersPointer],
    check: ObjectCheck,
    findings: Findings,
) -> None:
    name, life = _chain_of(key, prefix, lives)
    assert life is not None  # noqa: S101 - it was expected of one of its chains
    # As it is now: what was replaced since may be gone already.
    if not now(life.topic).reads(name):
        check.replaced += 1
        return
    if store.head(key) is not None:
        check.objects += 1
        return
    check.absent.add(key)
    findings.add(
        "object missing",
        ChainKey(life.topic, name.generation, name.partition),
        f"is not there, and a commit lists it: its records are in no other object of the group; {RULE_TOOK}",
        first=name.first,
        key=key,
    )


class _Extra:
    """Judges objects that no commit listed, by what their cut says now."""

    def __init__(
        self,
        store: ObjectStore,
        topic: str,
        prefix: str,
        lives: Sequence[LifeChains],
        check: ObjectCheck,
        findings: Findings,
    ) -> None:
        self._store, self._topic, self._prefix, self._lives = store, topic, prefix, lives
        self._check, self._findings = check, findings
        self._cuts: dict[tuple[ChainKey, int], tuple[set[str] | None, set[str]]] = {}

    def __call__(self, key: str) -> None:
        if key.rpartition("/")[2] in _MARKERS:
            return
        try:
            name, life = _chain_of(key, self._prefix, self._lives)
        except Terminal:
            self._add(self._topic, key, "is no object of the lake, in a folder of its own")
            return
        topic = life.topic if life else self._reserved_since(name.generation)
        if topic is None:
            self._add(self._topic, key, f"is of generation {name.generation}, which nobody reserved")
            return
        chain = ChainKey(topic, name.generation, name.partition)
        walked = life.chains.get((name.generation, name.partition)) if life else None
        if walked is not None and walked.in_hole(name.first):
            self._check.in_holes += 1
            return
        committed, promised = self._cut(chain, name.first)
        if committed is None and key in promised:
            self._check.under_way += 1
            return
        if committed is not None and key in committed:
            self._check.objects += 1
            return
        if committed is not None:
            why = "its cut is committed without it: whoever reads the folder reads records twice, or none of ours"
        else:
            why = "neither a commit nor an intent has it"
        self._add(chain, key, why, name.first)

    def _reserved_since(self, generation: int) -> TopicKey | None:
        """The life of the topic that has the generation by now: of an upgrade, a backfill or a topic made anew."""
        for topic in lives_of(self._store, self._prefix, self._topic):
            if any(each.generation == generation for each in read_pointer(self._store, topic).reserved):
                return topic
        return None

    def _cut(self, chain: ChainKey, first: int) -> tuple[set[str] | None, set[str]]:
        """Keys that the cut's commit lists, None without one; and those that its intent promises."""
        if (chain, first) not in self._cuts:
            committed = _keys(self._store, chain, first, Commit, chain.commit(first))
            promised = _keys(self._store, chain, first, Intent, chain.intent(first)) if committed is None else None
            # Cuts come together: few have to be remembered.
            if len(self._cuts) > _TICK:
                self._cuts.clear()
            self._cuts[chain, first] = committed, promised or set()
        return self._cuts[chain, first]

    def _add(self, place: ChainKey | str, key: str, meaning: str, first: int | None = None) -> None:
        self._findings.add("object extra", place, meaning, first=first, key=key, run="lyrebird lake cat {key}")


def _keys(
    store: ObjectStore, chain: ChainKey, first: int, kind: type[Commit] | type[Intent], key: str
) -> set[str] | None:
    stored = store.get(key)
    try:
        return {file.key for file in kind.parse(stored.body, chain, first).files} if stored else None
    except Terminal:
        return None
