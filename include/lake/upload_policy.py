"""Decides when a topic-partition is due for an upload, and where that cut ends. Pure.

It is due by size when what is not committed has reached `max_bytes` or `max_records`, by age when its oldest record
has waited `max_age_s`, whichever is first, idle or not. Bytes are estimated from recent commits, so that nothing has
to be read to decide; a writer that meets `max_bytes` or `max_folders` before the planned end cuts there.

Why the age does not follow the record's timestamp alone: producers set it. One that replays old records would make
every poll due, one whose clock is ahead would keep its records waiting. So a record has waited at most since the last
cut that took all there was (it came after), and at least since it was first seen. The clock decides when a cut is
made, never what it is called or what is in it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from pydantic import Field

from include.settings.deployment import Strict

__all__ = [
    "Asked",
    "Decision",
    "Due",
    "PartitionBacklog",
    "TopicPolicy",
    "UploadPolicies",
    "UploadPolicy",
    "decide",
    "explain",
]

Due = Literal["size", "age", "flush", "ending"]
"""Why a cut is made: those reasons of an intent that a policy has."""

# Whoever reads an object holds it in memory.
_MOST_BYTES: Final = 5 << 30

Asked = Literal["", "flush", "ending"]
"""flush: somebody asked for all there is; ending: the run ends and leaves nothing behind."""


class UploadPolicy(Strict):
    """What holds for one topic. Bytes are those of the files, as they are stored."""

    max_bytes: int = Field(
        default=200_000_000, ge=1, le=_MOST_BYTES, description="who reads an object holds it in memory"
    )
    max_age_s: int = Field(default=3600, ge=1)
    """An upload is due when the oldest record that waits is older than this."""
    max_records: int = Field(default=2_000_000, ge=1, description="of offsets in a cut, whatever their size")
    max_folders: int = Field(
        default=1000,
        ge=1,
        description="of a cut, each 10 to 110 KB of memory: one more begins the next cut",
    )
    record_bytes: int = Field(default=1024, ge=1, description="what an offset is taken to need until commits tell")

    @property
    def words(self) -> str:
        """The policy as the intent keeps it."""
        return f"{self.max_bytes} bytes, {self.max_records} records or {self.max_age_s} s"


class TopicPolicy(Strict):
    """Other values for the topics of a pattern (`*`, `?`); what is left out stays as the group has it."""

    topics: str = Field(min_length=1)
    """The pattern."""
    max_bytes: int | None = Field(default=None, ge=1, le=_MOST_BYTES)
    """Instead of the group's."""
    max_age_s: int | None = Field(default=None, ge=1)
    """Instead of the group's."""
    max_records: int | None = Field(default=None, ge=1)
    """Instead of the group's."""
    max_folders: int | None = Field(default=None, ge=1)
    """Instead of the group's."""
    record_bytes: int | None = Field(default=None, ge=1)
    """Instead of the group's."""


class UploadPolicies(UploadPolicy):
    """A group's policy, with exceptions: the first whose pattern has the topic holds, alone."""

    topics: tuple[TopicPolicy, ...] = ()
    """Other values for some topics; the first pattern that fits holds."""

    def of(self, topic: str) -> tuple[UploadPolicy, str]:
        """The policy that holds for `topic`, and the pattern that says so, "" for the group's own."""
        own = UploadPolicy(**{name: getattr(self, name) for name in UploadPolicy.model_fields})
        for exception in self.topics:
            if _compiled(exception.topics).fullmatch(topic):
                given = exception.model_dump(exclude={"topics"}, exclude_none=True)
                return own.model_copy(update=given), exception.topics
        return own, ""


@dataclass(frozen=True, slots=True)
class PartitionBacklog:
    """The known backlog of a topic-partition. Times are epoch milliseconds of the clock that `decide` is given.

    `head` is the first offset that is not committed, `end` the log's last stable offset. `recent_bytes` are those of
    the files of recent commits, which cover `recent_offsets`; `known_bytes` those of what waits, where somebody has
    read it. `oldest_ms` is the Kafka timestamp of the record at
    `head`, if known; `seen_ms` when `end` was first seen after `head`; `planned_ms` when the last cut was planned that
    took all there was.
    """

    head: int
    end: int
    recent_bytes: int = 0
    recent_offsets: int = 0
    known_bytes: int | None = None
    oldest_ms: int | None = None
    seen_ms: int | None = None
    planned_ms: int | None = None

    @property
    def waiting(self) -> int:
        """Offsets that are not committed; some of them may hold no record."""
        return max(0, self.end - self.head)

    def since_ms(self, now_ms: int) -> int:
        """From when on its oldest record has waited, as far as can be believed."""
        seen = now_ms if self.seen_ms is None else min(self.seen_ms, now_ms)
        since = seen if self.oldest_ms is None or self.oldest_ms < 0 else min(self.oldest_ms, seen)
        return since if self.planned_ms is None else max(since, min(self.planned_ms, seen))


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` is None when nothing is due; else the cut is [head, `end`) at most.

    `bytes` estimates all that waits, `age_ms` is how long its oldest record has; both 0 when nothing waits.
    """

    reason: Due | None
    end: int
    bytes: int
    age_ms: int


def decide(policy: UploadPolicy, standing: PartitionBacklog, now_ms: int, asked: Asked = "") -> Decision:
    """Decides whether an upload is due, why, and where it ends at most: by size, then by age, then by what is asked."""
    waiting = standing.waiting
    if not waiting:
        return Decision(None, standing.head, 0, 0)
    of, offsets = _rate(policy, standing)
    size = waiting * of // offsets
    age_ms = now_ms - standing.since_ms(now_ms)
    reason: Due | None = None
    if size >= policy.max_bytes or waiting >= policy.max_records:
        reason = "size"
    elif age_ms >= policy.max_age_s * 1000:
        reason = "age"
    elif asked:
        reason = asked
    if reason is None:
        return Decision(None, standing.head, size, age_ms)
    return Decision(reason, standing.head + min(waiting, _most(policy, standing)), size, age_ms)


def explain(
    policy: UploadPolicy, standing: PartitionBacklog, now_ms: int, *, pattern: str = "", asked: Asked = ""
) -> Sequence[str]:
    """Lines for a person: what holds, what waits, what follows; `pattern` as `UploadPolicies.of` gives it."""
    decision = decide(policy, standing, now_ms, asked)
    by = f"the exception for {pattern}" if pattern else "the group's own"
    lines = [f"policy: {policy.words} ({by})"]
    if not standing.waiting:
        return [*lines, f"nothing waits: all up to offset {standing.head} is committed"]
    basis = _size_basis(policy, standing)
    lines.append(f"waiting: offsets {standing.head} to {standing.end - 1}, about {decision.bytes} bytes ({basis})")
    age_s, millis = divmod(decision.age_ms, 1000)
    lines.append(f"oldest: {age_s}.{millis:03} s ({_age_basis(standing, now_ms)})")
    if decision.reason is None:
        left_s = policy.max_age_s - decision.age_ms // 1000
        left = f"{policy.max_bytes - decision.bytes} bytes or {policy.max_records - standing.waiting} records more"
        return [*lines, f"not due: by age in {left_s} s, by size after {left}"]
    return [*lines, f"due by {decision.reason}: the next cut ends at offset {decision.end} at most"]


def _rate(policy: UploadPolicy, standing: PartitionBacklog) -> tuple[int, int]:
    """Bytes and the number of offsets that need them, as far as is known."""
    if standing.known_bytes is not None:
        return standing.known_bytes, standing.waiting
    if standing.recent_offsets > 0:
        return standing.recent_bytes, standing.recent_offsets
    return policy.record_bytes, 1


def _most(policy: UploadPolicy, standing: PartitionBacklog) -> int:
    """Offsets of one cut: a whole `max_bytes`, at least one."""
    size, offsets = _rate(policy, standing)
    # Rounded up, so that what is due by size is not left one record short of it.
    by_bytes = -(-policy.max_bytes * offsets // size) if size > 0 else policy.max_records
    return max(1, min(policy.max_records, by_bytes))


def _size_basis(policy: UploadPolicy, standing: PartitionBacklog) -> str:
    size, offsets = _rate(policy, standing)
    if standing.known_bytes is not None:
        return "as they were read"
    if standing.recent_offsets > 0:
        return f"recent commits: {size} bytes in {offsets} offsets"
    return f"no commits yet: {size} bytes an offset are assumed"


def _age_basis(standing: PartitionBacklog, now_ms: int) -> str:
    since = standing.since_ms(now_ms)
    if since == standing.oldest_ms:
        return "by the timestamp of its record"
    if since == standing.planned_ms:
        return "since the last cut that took all there was"
    return "since it was first seen"


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    # `[` is no sign of ours, as topics cannot have one.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))
