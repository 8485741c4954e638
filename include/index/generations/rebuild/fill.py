"""Works off ranges of topics, many at once, and settles them in order.

A range is settled when each of its records is in the index, stale, or refused; `settle` then notes it. Ranges are
settled in the order of the list, so what is noted never has a hole: after a kill the work goes on behind it, and
ranges that were done beyond it are done again, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from include.clock import Clock
from include.errors import LyrebirdError, Transient
from include.index.outcome import TaskOutcome
from include.index.worker import NumberedRange
from include.log.planning.slices import Slice
from include.log.running.failure import first_line
from include.log.running.job_pool import OwnedJobPool
from include.pace import Backoff

__all__ = ["FillAnswer", "RangePool", "fill", "lost_range"]

_AHEAD: Final = 4
_REST_S: Final = 0.02
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0
_LOST_IN_A_ROW: Final = 10

FillAnswer = TaskOutcome | LyrebirdError
RangePool = OwnedJobPool[NumberedRange, tuple[int, FillAnswer]]
"""Gives what became of each range, with its number."""


def lost_range(task: NumberedRange, failed: BaseException) -> tuple[int, FillAnswer]:
    """What became of a range whose worker is gone: what it wrote is in the index, and comes back as stale."""
    if isinstance(failed, LyrebirdError):
        return task[0], failed
    return task[0], Transient("a task was lost", system="workers", reason=first_line(failed))


def fill(
    ranges: Sequence[Slice],
    pool: RangePool,
    settle: Callable[[Slice, TaskOutcome], None],
    clock: Clock,
    on_wait: Callable[[str], None],
) -> None:
    """Work off all `ranges`; blocks until they are settled.

    A server that does not take documents is waited for without end, with growing pauses; `on_wait` hears of each.
    Raises what a task has as its fault, what `settle` raises, and `Transient` when tasks are lost time and again.
    """
    done: dict[int, TaskOutcome] = {}
    submitted = settled = lost = 0
    backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    while settled < len(ranges):
        while submitted < len(ranges) and _room(submitted, settled, len(done), pool.slots):
            pool.submit((submitted, ranges[submitted]))
            submitted += 1
        answers = pool.finished()
        again = []
        for number, answer in answers:
            if isinstance(answer, LyrebirdError):
                lost += 1
                if not isinstance(answer, Transient) or lost >= _LOST_IN_A_ROW:
                    raise answer
                again.append((number, str(answer)))
            elif answer.fault is not None:
                raise answer.fault
            elif answer.waiting:
                again.append((number, answer.reason))
            else:
                done[number] = answer
                lost = 0
                backoff.reset()
        while settled in done:
            settle(ranges[settled], done.pop(settled))
            settled += 1
        if again:
            on_wait(again[0][1])
            clock.sleep(backoff.next_s())
            for number, _ in again:
                pool.submit((number, ranges[number]))
        elif not answers:
            clock.sleep(_REST_S)


def _room(submitted: int, settled: int, done: int, slots: int) -> bool:
    """Whether another range may be handed out: some are always waiting, and none runs far ahead of a slow one."""
    return submitted - settled - done < slots + 1 and submitted - settled < slots * _AHEAD
