"""Reports how far a group is with each topic-partition, what waits, what stands in its way, what to do about it.

Rests on the bucket and the log alone: the group's application need not run. What that reported last is shown, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from include.errors import LyrebirdError
from include.lake.definition import LakeGroup
from include.lake.incidents.diagnosis import Diagnosis, diagnose
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.inventory import chain_head, stored_topics
from include.lake.protocol.pointer import ReadersPointer, read_pointer
from include.lake.protocol.read_cuts import read_partitions
from include.lake.reading.group_log import GroupLog, TopicIdPartition
from include.lake.upload_policy import PartitionBacklog, decide
from include.log.planning.survey import HiddenOffsets
from include.log.publishing.unended import find_hanging
from include.store.object_store import ObjectStore

__all__ = ["BAD", "GroupStatus", "LastCommit", "PartitionState", "PartitionStatus", "group_status", "standing_of"]

PartitionState = Literal[
    "up to date",
    "open",
    "due",
    "not known",
    "late",
    "hanging",
    "not begun",
    "lost",
    "truncated",
    "gone",
    "no rule",
    "failing",
]
"""up to date: nothing waits; open: something does, within the policy; due: an upload is due; not known: the log does
not tell; late: it has been due for over a minute; hanging: a transaction that began longer ago than the policy's age
has no end, so nothing behind it is shown; not begun: records wait and nobody has begun; lost: retention was faster than
the group; truncated: the log ends before what is stored; gone: the topic was deleted or made anew; no rule: of the
group for this topic; failing: an error stands."""

BAD: Final = frozenset({"late", "hanging", "not begun", "lost", "truncated", "no rule", "failing"})
"""States that somebody has to look at."""

# Kafka's own, which nobody stores.
_INTERNAL: Final = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
_GRACE_MS: Final = 60_000
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The newest cut of a chain. `at_us` by the store's clock (None: it does not tell), `newest_ms` of its records."""

    key: str
    first: int
    next: int
    records: int
    bytes: int
    at_us: int | None
    newest_ms: int | None


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One topic-partition. `committed` is the first offset that is not; what can be stored is [committed, end).

    `hidden` offsets behind `end` wait for a transaction's end. `lag_records` counts both, up to the high watermark;
    some of them may hold no record. `lag_s` is the age of the oldest record that waits, by its Kafka timestamp;
    `open_bytes` what the files of all that can be stored would have. None: not known.
    """

    topic: str
    topic_id: str
    partition: int
    state: PartitionState
    todo: str = ""
    generation: int | None = None
    committed: int | None = None
    end: int | None = None
    lag_records: int | None = None
    lag_s: float | None = None
    open_bytes: int | None = None
    last: LastCommit | None = None
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group. `troubles` are of the whole of it; `told` is what its application reported last, as it stands."""

    name: str
    application: str
    troubles: tuple[Diagnosis, ...]
    partitions: tuple[PartitionStatus, ...]
    left_out: tuple[str, ...] = ()
    """Topics that its patterns have, and that it does not store for their names."""
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Whether nobody has to look at it."""
        stands = self.troubles or self.told.get("ended") or self.told.get("incidents")
        return not stands and not any(each.state in BAD for each in self.partitions)


def group_status(
    name: str, group: LakeGroup, store: ObjectStore, log: GroupLog, now_ms: int, told: Mapping[str, Any] | None = None
) -> GroupStatus:
    """The status of a group now. Errors of store and log are among its `troubles`: none of them is raised.

    Args:
        name: the group's.
        group: as it is declared.
        store: the bucket of the lake.
        log: tells what is there to store.
        now_ms: the present, in epoch milliseconds.
        told: the group's part of its application's progress.json; in it `incidents` are its open ones, and `ended` is
            why the application gave up.
    """
    return _Look(group, store, log, now_ms, told or {}).status(name)


class _Look:
    def __init__(
        self, group: LakeGroup, store: ObjectStore, log: GroupLog, now_ms: int, told: Mapping[str, Any]
    ) -> None:
        self._group, self._store, self._log = group, store, log
        self._now_ms, self._told = now_ms, told
        self._troubles: list[Diagnosis] = []
        self._left_out: set[str] = set()
        self._log_answers = self._store_answers = True
        self._edges: Mapping[TopicIdPartition, tuple[int, int]] = {}
        self._hidden: Mapping[TopicIdPartition, HiddenOffsets] = {}
        self._pointers: dict[TopicKey, ReadersPointer] = {}

    def status(self, name: str) -> GroupStatus:
        stored = self._stored()
        there = self._there()
        tps = {*there, *self._only_stored(stored, there)}
        if self._log_answers:
            try:
                self._hidden = self._log.hidden(there)
                self._edges = self._log.edges(there)
            except LyrebirdError as error:
                self._log_trouble(error)
        if self._store_answers:
            for tp in tps:
                key = self._topic(tp)
                if key not in self._pointers:
                    self._pointers[key] = self._pointer(key)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(self._chain_status, sorted(tps)))
        # One after the other: the log's client is not for several threads.
        partitions = tuple(self._partition(tp, *each) for tp, each in zip(sorted(tps), found, strict=True))
        left_out = tuple(sorted(self._left_out - _INTERNAL))
        return GroupStatus(name, self._group.application, tuple(self._troubles), partitions, left_out, self._told)

    def _stored(self) -> list[TopicKey]:
        try:
            return list(stored_topics(self._store, self._group.prefix))
        except LyrebirdError as error:
            self._store_answers = False
            self._troubles.append(diagnose(error))
            return []

    def _there(self) -> list[TopicIdPartition]:
        try:
            every = self._log.topics()
        except LyrebirdError as error:
            self._log_trouble(error)
            return []
        self._left_out = {info.name for info in every if self._group.leaves_out(info.name)}
        infos = [info for info in every if self._group.wants(info.name)]
        return [TopicIdPartition(info.name, info.named_id, p) for info in infos for p in range(info.partitions)]

    def _log_trouble(self, error: LyrebirdError) -> None:
        self._log_answers = False
        self._troubles.append(diagnose(error))

    def _only_stored(self, stored: Sequence[TopicKey], there: Sequence[TopicIdPartition]) -> list[TopicIdPartition]:
        """Partitions of lives of topics that the log does not show."""
        known = {(tp.topic, tp.topic_id) for tp in there}
        tps = []
        for key in stored:
            if (key.topic, key.topic_id) in known:
                continue
            try:
                self._pointers[key] = read_pointer(self._store, key)
                partitions = read_partitions(self._store, key, self._pointers[key])
            except LyrebirdError as error:
                self._troubles.append(diagnose(error))
                continue
            tps += [TopicIdPartition(key.topic, key.topic_id, partition) for partition in partitions]
        return tps

    def _pointer(self, key: TopicKey) -> ReadersPointer:
        try:
            return read_pointer(self._store, key)
        except LyrebirdError as error:
            self._troubles.append(diagnose(error))
            return ReadersPointer()

    def _topic(self, tp: TopicIdPartition) -> TopicKey:
        return TopicKey(self._group.prefix, tp.topic, tp.topic_id)

    def _chain_status(self, tp: TopicIdPartition) -> tuple[int | None, int | None, LastCommit | None, Diagnosis | None]:
        """Generation, head and last commit of the live chain, or what keeps them from being told."""
        pointer = self._pointers.get(self._topic(tp))
        live = pointer.live if pointer else None
        if pointer is None or live is None:
            return None, None, None, None
        chain = ChainKey(self._topic(tp), live.generation, tp.partition)
        try:
            near = self._edges[tp][1] if tp in self._edges else None
            head = chain_head(self._store, chain, pointer.start(live, tp.partition), near=near)
            last = None if head.last is None else self._last(chain, head.last)
        except LyrebirdError as error:
            return live.generation, None, None, diagnose(error)
        return live.generation, head.next, last, None

    def _last(self, chain: ChainKey, first: int) -> LastCommit | None:
        commit, seen = Chain(self._store, chain).commit(first), self._store.head(chain.commit(first))
        if commit is None or seen is None:
            return None
        size = sum(file.bytes for file in commit.files)
        return LastCommit(seen.key, first, commit.next, commit.n_records, size, seen.modified_us, commit.max_ts)

    def _partition(
        self,
        tp: TopicIdPartition,
        generation: int | None,
        head: int | None,
        last: LastCommit | None,
        wrong: Diagnosis | None,
    ) -> PartitionStatus:
        edges = self._edges.get(tp)
        end = edges[1] if edges else None
        lag = None if head is None or edges is None else max(0, edges[1] - max(head, edges[0]))
        lag_ms: int | None = None
        size: int | None = 0 if lag == 0 else None
        late = due = False
        policy, _ = self._group.policy.of(tp.topic)
        if lag and head is not None and end is not None:
            lag_ms = self._waited_ms(tp, head)
            decision = decide(policy, _standing(end - lag, end, last, self._now_ms, lag_ms), self._now_ms)
            size, due = decision.bytes, decision.reason is not None
            late = decision.age_ms > policy.max_age_s * 1000 + _GRACE_MS and self._group.run == "stream"
        hidden, hidden_ms = self._hidden.get(tp), None
        if hidden is not None:
            hidden_ms = self._waited_ms(tp, hidden.stable, shown=False)
            lag_ms = max((each for each in (lag_ms, hidden_ms) if each is not None), default=None)
        hanging = hidden_ms is not None and hidden_ms > policy.max_age_s * 1000
        state, todo = self._state(tp, head, edges, wrong, lag=lag, due=due, late=late, hanging=hanging)
        behind = 0 if hidden is None or end is None else max(0, hidden.written - end)
        whole = None if lag is None else lag + behind
        lag_s = 0.0 if whole == 0 else None if lag_ms is None else lag_ms / 1000
        return PartitionStatus(*tp, state, todo, generation, head, end, whole, lag_s, size, last, behind)

    def _waited_ms(self, tp: TopicIdPartition, offset: int, *, shown: bool = True) -> int | None:
        try:
            oldest = self._log.timestamps_ms({tp: offset})[tp] if shown else self._log.begun_ms(tp, offset)
        except LyrebirdError as error:
            self._log_trouble(error)
            return None
        return None if oldest < 0 else max(0, self._now_ms - oldest)

    def _state(
        self,
        tp: TopicIdPartition,
        head: int | None,
        edges: tuple[int, int] | None,
        wrong: Diagnosis | None,
        *,
        lag: int | None,
        due: bool,
        late: bool,
        hanging: bool,
    ) -> tuple[PartitionState, str]:
        """The worst that holds, and what to do."""
        application = self._group.application
        failing = self._told.get("failing", {}).get(f"{tp.topic}/{tp.partition}")
        gone = edges is None and self._log_answers
        if wrong is not None:
            return "failing", f"{wrong.text} {wrong.fix}"
        if gone:
            return "gone", "Nothing: the topic was deleted or made anew. What is stored of it stays."
        if self._group.rule(tp.topic) is None:
            return "no rule", f"Add a rule for {tp.topic} to the group, or leave it out by `exclude`."
        if failing is not None:
            return "failing", str(failing)
        if edges is None or not self._store_answers:
            return "not known", ""
        begin, end = edges
        if head is None:
            if begin == end:
                return ("hanging", _unhidden(tp)) if hanging else ("up to date", "")
            return "not begun", f"Start the application {application}; see `lyrebird status` and its log."
        if end < head:
            fix = "Find out what Kafka lost (unclean election?), then go on under a higher `revision`."
            return "truncated", f"The log ends at {end}, before what is stored. {fix}"
        if begin > head > 0:
            fix = f"Raise the topic's retention, and see why {application} is behind."
            return "lost", f"Kafka has dropped offsets {head} to {begin - 1}, which are not stored. {fix}"
        if late:
            return "late", f"See that {application} runs (`lyrebird status`), and its log."
        if hanging:
            return "hanging", _unhidden(tp)
        return ("due" if due else "open") if lag or tp in self._hidden else "up to date", ""


def _unhidden(tp: TopicIdPartition) -> str:
    find = find_hanging(tp.topic, tp.partition)
    return f"A transaction has no end: unless its producer still writes, find it (`{find}`) and abort it."


def standing_of(one: PartitionStatus, now_ms: int) -> PartitionBacklog | None:
    """The backlog that the upload policy is asked with; None where head or end is not known."""
    if one.committed is None or one.end is None or one.lag_records is None:
        return None
    waiting = one.lag_records - one.hidden
    waited_ms = None if one.lag_s is None or not waiting else round(one.lag_s * 1000)
    return _standing(one.end - waiting, one.end, one.last, now_ms, waited_ms)


def _standing(head: int, end: int, last: LastCommit | None, now_ms: int, waited_ms: int | None) -> PartitionBacklog:
    return PartitionBacklog(
        head,
        end,
        recent_bytes=last.bytes if last else 0,
        recent_offsets=last.next - last.first if last else 0,
        oldest_ms=None if waited_ms is None else now_ms - waited_ms,
        # Producers may send old timestamps: nothing that waits did so before the commit in front of it.
        planned_ms=last.at_us // 1000 if last and last.at_us is not None else None,
    )
