"""One topic in one group of the lake, audited step by step: `audit` says in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from include.audit.chain.commits import CommitReader, UnreadableCommit
from include.audit.chain.compare import Segment, segments_of
from include.audit.chain.coverage import check_pointer, read_cuts
from include.audit.chain.deep import read_objects
from include.audit.chain.finding import Findings
from include.audit.chain.listing import ChainFolder, LifeListing, ProgressListener, SilentListener, kept_of, list_life
from include.audit.chain.objects import LifeChains, ObjectCheck, check_objects, labels_differ
from include.audit.chain.report import GroupFigures
from include.audit.chain.walk import WalkedChain, walk
from include.errors import Terminal, Transient
from include.lake.backfill.expiry import Eraser
from include.lake.definition import LakeGroup
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.protocol.generations import lives
from include.lake.protocol.object_key import ObjectKey, topic_path
from include.lake.protocol.pointer import PointerEntry, ReadersPointer, read_pointer
from include.store.object_store import ObjectStore

__all__ = ["GroupAudit", "TopicPartition"]

TopicPartition = tuple[str, int]
"""A life's topic id, and a Kafka partition of it."""

_AT_ONCE: Final = 10_000
_TRIES: Final = 5


class GroupAudit:
    """First `walk`, then `check_objects`, then `read_objects`; `segments` are what readers find, with counts.

    Args:
        store: the bucket of the lake.
        name: the group's.
        group: as it is declared.
        topic: name of the topic that is audited.
        progress: hears how far the audit is.
        eraser: as of `CommitReader`.
    """

    def __init__(
        self,
        store: ObjectStore,
        name: str,
        group: LakeGroup,
        topic: str,
        progress: ProgressListener,
        eraser: Eraser | None = None,
    ) -> None:
        self._store, self._group, self._topic, self._progress, self._eraser = store, group, topic, progress, eraser
        self.name, self.kind = name, group.kind
        self.findings = Findings(name, parsed=group.kind == "partition")
        self.figures = GroupFigures(name, group.kind)
        self.segments: dict[TopicPartition, list[Segment]] = {}
        self._lives: list[LifeChains] = []
        self._folders: dict[ChainKey, ChainFolder] = {}
        self._checked = ObjectCheck()

    def walk(self, now_us: int, stale_s: int) -> bool:
        """Read chains and pointers; whether the group has anything of the topic."""
        self._progress.begin(f"{self.name}: chains")
        for topic in lives(self._store, self._group.prefix, self._topic):
            listing, pointer = self._looked(topic)
            chains = {
                place: self._walked(folder, pointer, now_us, stale_s)
                for place, folder in sorted(listing.chains.items())
            }
            self._lives.append(LifeChains(topic, pointer, chains))
            self._follow(listing, pointer, chains)
        return bool(self._lives) or next(iter(self._store.list(self._folder)), None) is not None

    @property
    def _folder(self) -> str:
        return topic_path(self._group.prefix, self._topic)

    def _looked(self, topic: TopicKey) -> tuple[LifeListing, ReadersPointer]:
        """A listing, and the pointer as it was before and after: one that changed meanwhile may name what was not."""
        for _ in range(_TRIES):
            try:
                before = read_pointer(self._store, topic)
                listing = list_life(self._store, topic, self._progress)
                if before != read_pointer(self._store, topic):
                    continue
            except Terminal as error:
                why = f"cannot be read: {error.details.get('reason', error.message)}; readers find nothing"
                self.findings.add("pointer wrong", topic, why, key=topic.pointer)
                return list_life(self._store, topic, self._progress), ReadersPointer()
            check_pointer(listing, before, self.findings)
            return listing, before
        raise Transient("the readers' pointer changes all the time", system="s3", key=topic.pointer)

    def _walked(self, folder: ChainFolder, pointer: ReadersPointer, now_us: int, stale_s: int) -> WalkedChain:
        generation, partition = folder.key.generation, folder.key.partition
        folder = self._folders[folder.key] = kept_of(folder, pointer.floor(partition))
        entry = next((each for each in pointer.entries if each.generation == generation and each.others), None)
        reader = CommitReader(
            self._store,
            folder,
            self.findings,
            self._progress,
            summed=entry is not None,
            eraser=self._eraser,
            kept_from=pointer.floor(partition),
        )
        walked = walk(
            folder,
            reader.read(),
            self.findings,
            start=_begins(folder, pointer, entry) if entry else None,
            again=partial(self._commit, folder.key),
            reads=partial(_reads, pointer, folder.key),
            now_us=now_us,
            stale_s=stale_s,
        )
        figures = self.figures
        figures.commits += len(folder.commits)
        figures.summaries += reader.made
        figures.summaries_due += reader.unwritten
        figures.mended += reader.mended
        figures.under_way += walked.under_way
        return walked

    def _commit(self, chain: ChainKey, first: int) -> Commit | None:
        try:
            return Chain(self._store, chain).commit(first)
        except Terminal:
            return None

    def _follow(
        self, listing: LifeListing, pointer: ReadersPointer, chains: Mapping[tuple[int, int], WalkedChain]
    ) -> None:
        heads = self.figures.heads.setdefault(listing.topic.topic_id, {})
        for partition in sorted({partition for _, partition in chains}):
            mine = {generation: chain for (generation, p), chain in chains.items() if p == partition}
            cuts = read_cuts(listing, pointer, partition, mine, self.findings)
            segments = self.segments[listing.topic.topic_id, partition] = segments_of(cuts)
            heads[partition] = segments[-1].next if segments else pointer.floor(partition)
            self.figures.records += sum(cut.records or 0 for cut in cuts)
            self.figures.filtered += sum(cut.filtered for cut in cuts)
            self.figures.quarantined += sum(cut.quarantined for cut in cuts)
            self.figures.lost += sum(cut.lost for cut in cuts)

    def chain_at(self, place: TopicPartition, first: int) -> ChainKey:
        """The chain in which readers find the cut at an offset."""
        life = next(life for life in self._lives if life.topic.topic_id == place[0])
        return ChainKey(life.topic, life.pointer.generation_of(place[1], first) or 0, place[1])

    def check_objects(self, *, labels: bool) -> None:
        """List the data objects and compare; with `labels` ask each how it was put."""
        self._progress.begin(f"{self.name}: objects")
        self._checked = check_objects(
            self._store, self._topic, self._group.prefix, self._lives, self.findings, self._progress
        )
        self.figures.objects = self._checked.objects
        self.figures.bytes = self._checked.bytes
        self.figures.replaced = self._checked.replaced
        if labels:
            self._check_labels()

    def _check_labels(self) -> None:
        objects = sum(len(chain.expected) for life in self._lives for chain in life.chains.values())
        self._progress.begin(f"{self.name}: labels", objects)
        for life, chain in self._chains():
            shas: dict[str, str] = {}
            for commit in self._commits(chain):
                shas |= {file.key: file.sha256 for file in commit.files if file.key not in self._checked.changed}
                if len(shas) >= _AT_ONCE:
                    self._compare_labels(life, chain, shas)
                    shas = {}
            self._compare_labels(life, chain, shas)

    def _compare_labels(self, life: LifeChains, chain: ChainKey, shas: dict[str, str]) -> None:
        for key, sha in labels_differ(self._store, shas, self._progress).items():
            name = ObjectKey.parse(key, life.topic.prefix)
            self._checked.changed.add(key)
            self.findings.add(
                "object changed",
                chain,
                f"was put by somebody else: its metadata have SHA-256 {sha[:16] + '…' if sha else 'none'}",
                first=name.first,
                key=key,
            )

    def read_objects(self, marks: Sequence[GroupAudit]) -> None:
        """Read every object; counts are then told up to each boundary that a group of `marks` has."""
        self._progress.begin(f"{self.name}: bytes", self._checked.bytes)
        rule = self._group.rule(self._topic)
        known = self._checked.absent | self._checked.changed
        for life, chain in self._chains():
            topic_partition = life.topic.topic_id, chain.partition
            pointer = life.pointer
            ends = sorted({each.next for other in marks for each in other.segments.get(topic_partition, ())})
            deep = read_objects(
                self._store,
                chain,
                self._commits(chain),
                self.findings,
                self._progress,
                reads=partial(self._reads_now, chain),
                known=known,
                declared=rule.format if rule else None,
                marks=ends,
            )
            self.figures.bytes_read += deep.bytes
            self._divide(topic_partition, pointer, chain, deep.segments)

    def _reads_now(self, chain: ChainKey, first: int) -> bool:
        """By the pointer as it is now: what was replaced since may be gone already."""
        return _reads(read_pointer(self._store, chain.of), chain, first)

    def _divide(
        self, place: TopicPartition, pointer: ReadersPointer, chain: ChainKey, found: Sequence[Segment]
    ) -> None:
        """Put finer segments in the place of those of the same cuts, where they are of whole ones that readers find."""
        finer: dict[int, list[Segment]] = {}
        whole = {segment.first: segment for segment in self.segments.get(place, ()) if segment.records is not None}
        cut = None
        for segment in found:
            cut = whole.get(segment.first, cut)
            if cut is not None and segment.next <= cut.next:
                finer.setdefault(cut.first, []).append(segment)
        kept: list[Segment] = []
        for each in self.segments.get(place, ()):
            parts = finer.get(each.first, [])
            kept += parts if _reads(pointer, chain, each.first) and parts and parts[-1].next == each.next else [each]
        self.segments[place] = kept

    def _chains(self) -> Iterator[tuple[LifeChains, ChainKey]]:
        for life in self._lives:
            for generation, partition in life.chains:
                yield life, ChainKey(life.topic, generation, partition)

    def _commits(self, chain: ChainKey) -> Iterator[Commit]:
        """All that can be read, again; what is wrong with them was noted before."""
        reader = CommitReader(self._store, self._folders[chain], Findings(self.name), SilentListener(), summed=False)
        return (each for each in reader.read() if not isinstance(each, UnreadableCommit))


def _begins(folder: ChainFolder, pointer: ReadersPointer, entry: PointerEntry) -> int:
    """Where a live chain begins: where its entry does; of one that has forgotten, with its first commit up to there."""
    start = pointer.start(entry, folder.key.partition)
    return min([start, *folder.commits, *folder.summaries]) if pointer.floor(folder.key.partition) else start


def _reads(pointer: ReadersPointer, chain: ChainKey, first: int) -> bool:
    """Whether readers look in this chain for the cut at `first`."""
    return pointer.generation_of(chain.partition, first) == chain.generation
