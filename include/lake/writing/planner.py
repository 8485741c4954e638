"""Plans the ranges of Kafka partitions to store next: the memory of a group's driver, without I/O or clock.

It knows nothing that a restart would miss: heads are in the bucket, edges in Kafka, and ages count from when a range
was first seen, or from its oldest record, whichever is earlier.

A partition is worked at by one task at a time. What failed is tried again after a pause that doubles; what must not
go on (`Terminal`) stands still until the driver is started again, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from include.lake.definition import LakeGroup
from include.lake.protocol.cut import Commit, Reason
from include.lake.reading.group_log import TopicIdPartition
from include.lake.upload_policy import Asked, UploadPolicy, decide
from include.lake.writing.partition_state import OpenTransaction, WatchedPartition
from include.log.planning.survey import HiddenOffsets
from include.log.ports import TopicInfo
from include.pace import doubled_s

__all__ = ["SHRUNK_MS", "GroupPlanner", "Range", "TopicRecreated", "jobs_of"]

_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
# For how long a log ends before its chain until it is believed: topics made anew are noticed sooner, and a new leader
# may not know at once how far it has come.
SHRUNK_MS: Final = 20_000
# Of how many offsets at least the size of a record is remembered; halved when it is twice that.
_RECENT: Final = 100_000
# Offsets of a range that may share its job with others: what it costs is its requests, not its records.
_SMALL: Final = 10_000


class Range(NamedTuple):
    """[head, until) of a partition is due; `policy` is what the intent notes.

    `last` is the `first` of the chain's last commit, where it is known: it saves listing those before it.
    """

    tp: TopicIdPartition
    head: int
    until: int
    reason: Reason
    policy: str
    last: int | None = None

    @property
    def small(self) -> bool:
        """Whether others may wait for it in the same job."""
        return self.reason != "size" and self.until - self.head <= _SMALL


class TopicRecreated(NamedTuple):
    """A topic was made anew or deleted while offsets [head, end) of a partition were not stored: they are lost."""

    tp: TopicIdPartition
    head: int
    end: int


def jobs_of(due: Sequence[Range], most: int) -> list[list[Range]]:
    """The ranges of `most` jobs at most: small ones are spread over all that the others leave, in their order."""
    alone = [[each] for each in due if not each.small]
    small = [each for each in due if each.small]
    size = -(-len(small) // max(1, most - len(alone)))
    return alone + [small[at : at + size] for at in range(0, len(small), size or 1)]


class GroupPlanner:
    """The plan of one group. Not for use from several threads."""

    def __init__(self, group: LakeGroup) -> None:
        self._group = group
        self._watched: dict[TopicIdPartition, WatchedPartition] = {}
        # Gone from the log while a task is at them, which may still bring their chains further.
        self._leaving: dict[TopicIdPartition, WatchedPartition] = {}
        self._hidden_known = False
        self._policy: Callable[[str], UploadPolicy] = cache(lambda topic: group.policy.of(topic)[0])

    def on_topics(self, found: Iterable[TopicInfo]) -> list[TopicRecreated]:
        """All topics that the log has now; gives what was lost with those that are gone, once no task is at them."""
        infos = {info.name: info for info in found if self._group.wants(info.name)}
        for tp in [tp for tp in self._watched if self._gone(tp, infos)]:
            self._leaving[tp] = self._watched.pop(tp)
        for tp in [
            TopicIdPartition(info.name, info.named_id, p) for info in infos.values() for p in range(info.partitions)
        ]:
            # A broker that has not heard of a topic yet may have told that it is gone.
            known = self._watched.get(tp) or self._leaving.pop(tp, None) or WatchedPartition()
            known.doubted = False
            self._watched[tp] = known
        ended = {tp: watched for tp, watched in self._leaving.items() if not watched.busy}
        self._leaving = {tp: watched for tp, watched in self._leaving.items() if watched.busy}
        return [
            TopicRecreated(tp, watched.head, watched.end)
            for tp, watched in ended.items()
            if watched.head is not None and watched.end > watched.head
        ]

    @staticmethod
    def _gone(tp: TopicIdPartition, infos: Mapping[str, TopicInfo]) -> bool:
        info = infos.get(tp.topic)
        return info is None or info.named_id != tp.topic_id

    @property
    def tps(self) -> list[TopicIdPartition]:
        """All partitions of the group's topics."""
        return sorted(self._watched)

    def headless(self, now_ms: int | None = None) -> list[TopicIdPartition]:
        """Those whose head has to be looked up; given a time, without those that wait as the last look was refused."""
        return sorted(
            tp
            for tp, watched in self._watched.items()
            if not (watched.sure or watched.stopped) and (now_ms is None or now_ms >= watched.ask_ms)
        )

    def on_head(self, tp: TopicIdPartition, head: int, planned_ms: int | None = None, last: int | None = None) -> None:
        """Notes the end of a partition's chain; its last cut was planned at `planned_ms`, and begins at `last`."""
        watched = self._watched.get(tp)
        if watched is None:
            return
        if head != watched.head:
            watched.oldest_ms = watched.seen_ms = None
        watched.head, watched.sure, watched.planned_ms, watched.last = head, True, planned_ms, last
        if head >= watched.due_until:
            # What failed last has done its work, and only the answer was lost; or another driver did it.
            watched.failing = ""

    def on_edges(self, edges: Mapping[TopicIdPartition, tuple[int, int]], now_ms: int) -> None:
        """Notes what the log holds of each partition: [begin, end)."""
        for tp, (begin, end) in edges.items():
            watched = self._watched.get(tp)
            if watched is None:
                continue
            # No log of one topic shrinks: this is another one by that name, or was truncated. Whoever reads it tells.
            watched.doubted |= end < watched.end
            if not watched.doubted:
                watched.begin, watched.end = max(begin, watched.begin), end
            watched.growth.note(watched.end, now_ms)
            if watched.head is not None and watched.seen_ms is None and watched.end > watched.head:
                watched.seen_ms = now_ms
            if watched.head is None or end >= watched.head:
                watched.shrunk_ms = None
            elif watched.shrunk_ms is None:
                watched.shrunk_ms = now_ms
            watched.shrunk_end = end

    def on_hidden(
        self,
        found: Mapping[TopicIdPartition, HiddenOffsets],
        now_ms: int,
        begun_ms: Mapping[TopicIdPartition, int] | None = None,
    ) -> None:
        """All that the log has and shows to no reader, as a transaction has no end; `begun_ms`: since when."""
        self._hidden_known = True
        for tp, watched in self._watched.items():
            watched.note_hidden(found.get(tp), now_ms, (begun_ms or {}).get(tp, now_ms))

    def held_up(self) -> dict[TopicIdPartition, OpenTransaction] | None:
        """Each partition behind whose end something is hidden, and for how long; None before the first look at that.

        Unless it was told since when, by this driver's clock, from its own first look on.
        """
        held_up = ((tp, watched.held_up()) for tp, watched in sorted(self._watched.items()))
        return {tp: found for tp, found in held_up if found is not None} if self._hidden_known else None

    def shrunk(self, now_ms: int, least_ms: int = SHRUNK_MS) -> dict[TopicIdPartition, int]:
        """Those whose log has for so long ended before their chain does, and where: nothing of them comes to be due."""
        return {
            tp: watched.shrunk_end
            for tp, watched in sorted(self._watched.items())
            if watched.shrunk_ms is not None
            and now_ms - watched.shrunk_ms >= least_ms
            and watched.sure
            and not (watched.busy or watched.stopped)
        }

    def head(self, tp: TopicIdPartition) -> int:
        """The end of the chain of a partition, as far as is known; 0 for a partition that is gone."""
        watched = self._watched.get(tp)
        return (watched.head or 0) if watched else 0

    def unaged(self) -> list[TopicIdPartition]:
        """Those of which the timestamp of the oldest record that waits is not known, though one waits."""
        return sorted(
            tp
            for tp, watched in self._watched.items()
            if watched.head is not None
            and watched.sure
            and watched.end > watched.head
            and watched.oldest_ms is None
            and not watched.busy
        )

    def on_oldest(self, tp: TopicIdPartition, timestamp_ms: int) -> None:
        """The Kafka timestamp of the record at the head (-1: it has none)."""
        watched = self._watched.get(tp)
        if watched is not None:
            watched.oldest_ms = timestamp_ms

    def due(self, now_ms: int, most: int, asked: Asked = "", together: int = 1) -> list[Range]:
        """Ranges that are due, those that have waited longest first; each is then worked at.

        As many as `most` jobs can have, each of `together` small ranges or of one other.
        """
        candidates: list[tuple[int, Range]] = []
        for tp, watched in self._watched.items():
            if watched.head is None or not watched.sure or watched.busy or watched.stopped:
                continue
            if now_ms < watched.wait_until_ms:
                continue
            policy = self._policy(tp.topic)
            decision = decide(policy, watched.standing(), now_ms, asked)
            if decision.reason is not None:
                due = Range(tp, watched.head, decision.end, decision.reason, policy.words, watched.last)
                candidates.append((decision.age_ms, due))
        room = most * together
        chosen: list[Range] = []
        for _, planned in sorted(candidates, key=lambda each: (-each[0], each[1].tp)):
            room -= 1 if planned.small else together
            if room < 0:
                break
            chosen.append(planned)
        for planned in chosen:
            watched = self._watched[planned.tp]
            watched.busy, watched.due_until = True, planned.until
            if planned.until == watched.end:
                watched.planned_ms = now_ms
        return chosen

    def left(self, now_ms: int, asked: Asked = "") -> bool:
        """Whether anything is worked at, or due, now or after its pause; what stands still is not."""
        return any(
            watched.busy
            or not watched.sure
            or decide(self._policy(tp.topic), watched.standing(), now_ms, asked).reason is not None
            for tp, watched in self._watched.items()
            if not watched.stopped
        )

    def on_commit(self, tp: TopicIdPartition, commit: Commit) -> None:
        """A cut of the partition is whole."""
        leaving = self._leaving.get(tp)
        if leaving is not None:
            leaving.head = commit.next
        watched = self._watched.get(tp)
        if watched is None:
            return
        watched.last = max(watched.last or 0, commit.first)
        watched.recent_bytes += sum(file.bytes for file in commit.files)
        watched.recent_offsets += commit.next - commit.first
        if watched.recent_offsets > 2 * _RECENT:
            watched.recent_bytes //= 2
            watched.recent_offsets //= 2

    def on_done(self, tp: TopicIdPartition, head: int) -> None:
        """A task has ended with the chain's head there."""
        watched = self._watched.get(tp) or self._leaving.get(tp)
        if watched is None:
            return
        moved = head != watched.head
        watched.busy, watched.failures, watched.wait_until_ms = False, 0, 0
        watched.head, watched.sure, watched.failing = head, True, ""
        if moved:
            watched.oldest_ms = watched.seen_ms = None

    def on_failure(self, tp: TopicIdPartition, now_ms: int, why: str, *, stop: bool = False) -> None:
        """A task has failed: it is tried again after a pause, or with `stop` no more."""
        watched = self._watched.get(tp) or self._leaving.get(tp)
        if watched is None:
            return
        watched.busy, watched.failing, watched.stopped = False, why, stop
        # Somebody else may have brought the chain further. What was known goes on telling what waits.
        watched.sure = False
        watched.failures += 1
        watched.wait_until_ms = now_ms + round(1000 * doubled_s(watched.failures, _PAUSE_S, _LONGEST_PAUSE_S))

    def on_refused(self, tp: TopicIdPartition, now_ms: int, why: str) -> None:
        """A look at its head was refused: it is looked at again after a pause."""
        self.on_failure(tp, now_ms, why)
        watched = self._watched.get(tp)
        if watched is not None:
            watched.ask_ms = watched.wait_until_ms

    @property
    def failing(self) -> dict[TopicIdPartition, str]:
        """The partitions whose last task has failed, each with the reason, until what was due is stored."""
        return {tp: watched.failing for tp, watched in sorted(self._watched.items()) if watched.failing}

    @property
    def stopped(self) -> dict[TopicIdPartition, str]:
        """Those of them that stand still."""
        return {tp: why for tp, why in self.failing.items() if self._watched[tp].stopped}

    @property
    def busy(self) -> int:
        """The number of partitions that are worked at."""
        return sum(watched.busy for known in (self._watched, self._leaving) for watched in known.values())

    def waiting(self) -> dict[TopicIdPartition, int]:
        """Offsets that wait, of each partition whose head is or was known."""
        return {
            tp: max(0, watched.end - watched.head)
            for tp, watched in sorted(self._watched.items())
            if watched.head is not None
        }

    def age_ms(self, now_ms: int) -> int:
        """The time that the oldest record of all partitions has waited; 0 when none waits."""
        waiting = [each.standing() for each in self._watched.values() if each.head is not None and each.end > each.head]
        return max((now_ms - each.since_ms(now_ms) for each in waiting), default=0)

    def overdue_ms(self, now_ms: int, *, whole: bool = False) -> dict[TopicIdPartition, int]:
        """How much longer than its policy's age each partition's oldest record has waited; may be below 0.

        It has waited since the log was first seen to have it, whatever timestamps producers give; so a backlog that was
        there when the driver began counts from then, or with `whole` from the age of its records, too. What stands
        still is not among them.
        """
        overdue = {}
        for tp, watched in sorted(self._watched.items()):
            if watched.head is None or watched.stopped or watched.end <= watched.head:
                continue
            since_ms = watched.growth.since_ms(watched.head, now_ms)
            if whole:
                since_ms = min(since_ms, watched.standing().since_ms(now_ms))
            overdue[tp] = now_ms - since_ms - self._policy(tp.topic).max_age_s * 1000
        return overdue
