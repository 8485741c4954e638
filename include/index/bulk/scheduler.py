"""Decides which bulk request is sent next, and what its answer means for the lines: no threads, no time.

A line is settled when it is done, stale or dead. Nothing is sent again that was settled. Requests may be under way at
once and their order does not matter, as versions decide. How many is found by additive increase, multiplicative
decrease (Chiu and Jain 1989): one more for each round of requests that the server takes, half when it is overloaded
or silent. A document at which the server breaks, while it and the document's shard work, is dead (`suspects`). Waits
grow (`pace.Backoff`) or are as `Retry-After` says; while one lasts nothing is sent.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from include.errors import Terminal
from include.index.bulk.request import BulkLine, bytes_of, classify_item, classify_request, data_of, groups_of
from include.index.bulk.suspects import Suspects, all_works
from include.index.server.port import BulkAnswer, ItemAnswer
from include.pace import Backoff

__all__ = ["BulkRequest", "Concurrency", "DeliveryResult", "InFlight"]

_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0
_SLOW_WAIT_S = 5.0
# Clocks count in microseconds: one that slept may lack the last of them.
_TICK_S = 2e-6
_WRITTEN = frozenset({200, 201})


@dataclass
class DeliveryResult:
    """What became of the lines. `waiting` were not settled within the patience, for `reason`."""

    done: list[BulkLine] = field(default_factory=list)
    stale: list[BulkLine] = field(default_factory=list)
    dead: list[tuple[BulkLine, ItemAnswer]] = field(default_factory=list)
    waiting: list[BulkLine] = field(default_factory=list)
    requests: int = 0
    retries: int = 0
    reason: str = ""


class Concurrency:
    """How many requests may be under way to a server, `limit` from 1 to `most`; outlives deliveries, for one thread."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = min(2, most)
        self._taken = 0
        self._halved_s = float("-inf")

    def taken(self) -> None:
        """The server took a request: one more for each round of them."""
        self._taken += 1
        if self._taken >= self.limit:
            self.limit = min(self.most, self.limit + 1)
            self._taken = 0

    def strained(self, sent_s: float, now_s: float) -> None:
        """A request sent at `sent_s` found it overloaded: half as many, once for all that were under way then."""
        if sent_s >= self._halved_s:
            self.limit = max(1, self.limit // 2)
            self._taken = 0
            self._halved_s = now_s


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """Lines that go together. What is `beside` (`suspects`) goes behind them, and is answered last."""

    lines: list[BulkLine]
    sent_s: float
    beside: tuple[BulkLine, ...] = ()

    @property
    def data(self) -> bytes:
        """The body."""
        return b"".join(data_of([*self.lines, *self.beside] if self.beside else self.lines))


class InFlight:
    """Lines on their way to one index. Times are seconds of one monotonic clock.

    Whoever sends asks for `next`, and gives back each answer, in any order. When nothing more was settled for
    `patience_s` it is `given_up`: `surrender` then makes all that is left waiting.
    """

    def __init__(
        self, *, index: str, bulk_bytes: int, patience_s: float, concurrency: Concurrency, jitter: random.Random
    ) -> None:
        self.fault: Terminal | None = None
        self.resume_s = float("-inf")
        self.pending_bytes = 0
        self._index = index
        self._bulk_bytes = bulk_bytes
        self._patience_s = patience_s
        self._concurrency = concurrency
        self._queue: deque[list[BulkLine]] = deque()
        self._suspects = Suspects()
        self._under_way = 0
        self._backoff = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S, jitter.uniform)
        self._progress_s = 0.0
        self._out = DeliveryResult()

    @property
    def idle(self) -> bool:
        """Whether all lines are settled."""
        return not self._queue and not self._under_way

    @property
    def lacks_witness(self) -> bool:
        """Whether `bear` is waited for: a document may be at fault, and none was taken."""
        return self._suspects.lack_witness

    def bear(self, witness: BulkLine | None) -> None:
        """A document that the index has, to be sent beside suspects; None: there is none."""
        self._suspects.bear(witness)
        # At once: those queued together would cost one more wait, which patience may not last for.
        self._queue = deque(group for queued in self._queue for group in self._suspects.groups(queued))

    def add(self, lines: Sequence[BulkLine], now_s: float) -> None:
        """More lines to send."""
        if self.idle:
            self._progress_s = now_s
        self._queue.extend(groups_of(lines, self._bulk_bytes))
        self.pending_bytes += bytes_of(lines)

    def next(self, now_s: float) -> BulkRequest | None:
        """Takes the request to send now; None while nothing may be sent: until `resume_s`, or until an answer comes."""
        resting = now_s < self.resume_s - _TICK_S
        if not self._queue or self.fault or resting or self._under_way >= self._concurrency.limit:
            return None
        self._under_way += 1
        self._out.requests += 1
        group = self._queue.popleft()
        return BulkRequest(group, now_s, self._suspects.beside(group))

    def given_up(self) -> bool:
        """Whether the next request would come later than patience lasts."""
        return bool(self._queue) and self.resume_s > self._progress_s + self._patience_s

    def surrender(self) -> None:
        """Make all that is queued waiting."""
        self._out.waiting += [line for group in self._queue for line in group]
        self.pending_bytes -= sum(map(bytes_of, self._queue))
        self._queue.clear()
        self._suspects.clear()

    def take(self) -> DeliveryResult:
        """Takes what became of lines since the last call."""
        out, self._out = self._out, DeliveryResult()
        return out

    def on_answer(self, request: BulkRequest, answer: BulkAnswer, now_s: float) -> None:
        """Enter what is settled, queue what is to be sent again, alone or in parts."""
        self._under_way -= 1
        group = request.lines
        kind = classify_request(answer, len(group) + len(request.beside))
        if kind == "items":
            self._on_items(request, answer, now_s)
        elif kind == "index_fault":
            self.fault = self._fault(answer.status, answer.type, answer.reason)
        elif kind in ("split", "halve"):
            if request.beside:
                # It was taken before without them.
                self._suspects.forget(group[0])
                self._queue.append(group)
            elif len(group) == 1:
                self._out.dead.append((group[0], ItemAnswer(answer.status, answer.type, answer.reason)))
                self._settled(len(group[0].data), now_s)
            else:
                middle = len(group) // 2
                self._queue.extendleft((group[middle:], group[:middle]))
        else:
            reason = f"{answer.status} {answer.type} {answer.reason}".strip()
            self._again(request, [group], answer, reason, now_s, slow=kind == "slow")

    def _on_items(self, request: BulkRequest, answer: BulkAnswer, now_s: float) -> None:
        group, out = request.lines, self._out
        again: list[BulkLine] = []
        settled, slow, reason = 0, False, ""
        items = answer.items or ()
        passed: BulkLine | None = None
        works = bool(request.beside) and all_works(*items[len(group) :])
        items = items[: len(group)]
        # Mostly all is good news.
        if {item.status for item in items} <= _WRITTEN:
            out.done += group
            passed = group[-1]
            settled, items, group = bytes_of(group), (), []
        for line, item in zip(group, items, strict=True):
            kind = classify_item(item.status, item.type)
            if (kind == "alone" and len(group) == 1) or (kind == "broken" and works):
                kind = "dead"
            if kind in ("done", "stale"):
                (out.done if kind == "done" else out.stale).append(line)
                passed = line
            elif kind == "dead":
                out.dead.append((line, item))
            elif kind == "alone":
                self._queue.append([line])
                continue
            elif kind == "index_fault":
                self.fault = self._fault(item.status, item.type, item.reason)
                continue
            else:
                again.append(line)
                slow = slow or kind == "slow"
                reason = f"{item.status} {item.type} {item.reason}".strip()
                self._suspects.answered(line, broken=kind == "broken", probed=bool(request.beside))
                continue
            self._suspects.forget(line)
            settled += len(line.data)
        if passed is not None:
            self._suspects.others_passed(passed)
        if settled:
            self._settled(settled, now_s)
        if again:
            self._again(request, self._suspects.groups(again), answer, reason, now_s, slow=slow)
        else:
            self._backoff.reset()
            self._concurrency.taken()

    def _settled(self, size: int, now_s: float) -> None:
        self.pending_bytes -= size
        self._progress_s = now_s

    def _again(
        self,
        request: BulkRequest,
        groups: list[list[BulkLine]],
        answer: BulkAnswer,
        reason: str,
        now_s: float,
        *,
        slow: bool,
    ) -> None:
        self._queue.extend(groups)
        self._out.retries += 1
        self._out.reason = reason
        self._concurrency.strained(request.sent_s, now_s)
        pause_s = max(self._backoff.next_s(), answer.retry_after_s or 0.0, _SLOW_WAIT_S if slow else 0.0)
        self.resume_s = max(self.resume_s, now_s + pause_s)

    def _fault(self, status: int, kind: str, reason: str) -> Terminal:
        alias = self._index.rpartition("-v")[0] or self._index
        fix = f"Run `lyrebird index create {alias}`." if status == 404 else "Look at the server's user and rights."
        return Terminal("index cannot be written", index=self._index, status=status, reason=kind or reason, fix=fix)
