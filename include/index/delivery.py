"""Sends lines until each is settled, waiting where the server asks for it.

A line is settled when it is done, stale or dead. Nothing is sent again that was settled. The order between requests
does not matter, as versions decide. Waits grow by decorrelated jitter
(https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/) or as `Retry-After` says.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from include.clock import Clock
from include.errors import Terminal
from include.index.bulk import BulkAnswer, ItemAnswer, Line, classify_item, classify_request, groups_of

__all__ = ["Delivered", "Delivery"]

_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0
_SLOW_WAIT_S = 5.0


@dataclass
class Delivered:
    """What became of the lines. `waiting` were not settled within the patience, for `reason`."""

    done: list[Line] = field(default_factory=list)
    stale: list[Line] = field(default_factory=list)
    dead: list[tuple[Line, ItemAnswer]] = field(default_factory=list)
    waiting: list[Line] = field(default_factory=list)
    requests: int = 0
    retries: int = 0
    reason: str = ""


class Delivery:
    """Delivers to one index. `send` never raises for what a server does: no answer is status 0."""

    def __init__(
        self,
        send: Callable[[bytes], BulkAnswer],
        clock: Clock,
        *,
        index: str,
        bulk_bytes: int,
        patience_s: float,
        jitter: random.Random | None = None,
    ) -> None:
        self._send = send
        self._clock = clock
        self._index = index
        self._bulk_bytes = bulk_bytes
        self._patience_s = patience_s
        # Jitter wants spread, not secrecy.
        self._jitter = jitter or random.Random()  # noqa: S311

    def deliver(self, lines: Sequence[Line]) -> Delivered:
        """Send `lines`; blocks at most about `patience_s` when the server does not take them.

        May be called again with lines that were delivered before: they come back as stale. Raises `Terminal` when
        the index is not there or refuses this writer.
        """
        out = Delivered()
        queue = deque(groups_of(lines, self._bulk_bytes))
        deadline = self._clock.monotonic_s() + self._patience_s
        wait_s = _FIRST_WAIT_S
        while queue:
            group = queue.popleft()
            answer = self._send(b"".join(line.data for line in group))
            out.requests += 1
            again, pause_s = self._settle(group, answer, queue, out)
            if not again:
                wait_s = _FIRST_WAIT_S
                continue
            queue.append(again)
            out.retries += 1
            wait_s = min(_LONGEST_WAIT_S, self._jitter.uniform(_FIRST_WAIT_S, wait_s * 3))
            pause_s = max(pause_s, wait_s)
            if self._clock.monotonic_s() + pause_s > deadline:
                out.waiting = [line for rest in queue for line in rest]
                break
            self._clock.sleep(pause_s)
        return out

    def _settle(
        self, group: list[Line], answer: BulkAnswer, queue: deque[list[Line]], out: Delivered
    ) -> tuple[list[Line], float]:
        """Enter what is settled into `out`, split groups into `queue`; gives what to send again, after how long."""
        kind = classify_request(answer, len(group))
        pause_s = answer.retry_after_s or 0.0
        if kind == "items":
            return self._settle_items(group, answer, queue, out)
        if kind == "index_fault":
            raise self._fault(answer.status, answer.type, answer.reason)
        if kind in ("split", "halve"):
            if len(group) == 1:
                out.dead.append((group[0], ItemAnswer(answer.status, answer.type, answer.reason)))
            else:
                middle = len(group) // 2
                queue.extendleft((group[middle:], group[:middle]))
            return [], 0.0
        out.reason = f"{answer.status} {answer.type} {answer.reason}".strip()
        return group, max(pause_s, _SLOW_WAIT_S) if kind == "slow" else pause_s

    def _settle_items(
        self, group: list[Line], answer: BulkAnswer, queue: deque[list[Line]], out: Delivered
    ) -> tuple[list[Line], float]:
        again: list[Line] = []
        pause_s = answer.retry_after_s or 0.0
        for line, item in zip(group, answer.items or (), strict=True):
            kind = classify_item(item.status, item.type)
            if kind == "done":
                out.done.append(line)
            elif kind == "stale":
                out.stale.append(line)
            elif kind == "dead" or (kind == "alone" and len(group) == 1):
                out.dead.append((line, item))
            elif kind == "alone":
                queue.append([line])
            elif kind == "index_fault":
                raise self._fault(item.status, item.type, item.reason)
            else:
                again.append(line)
                out.reason = f"{item.status} {item.type} {item.reason}".strip()
                pause_s = max(pause_s, _SLOW_WAIT_S) if kind == "slow" else pause_s
        return again, pause_s

    def _fault(self, status: int, kind: str, reason: str) -> Terminal:
        alias = self._index.rpartition("-v")[0] or self._index
        fix = f"Run `lyrebird index create {alias}`." if status == 404 else "Look at the server's user and rights."
        return Terminal("index cannot be written", index=self._index, status=status, reason=kind or reason, fix=fix)
