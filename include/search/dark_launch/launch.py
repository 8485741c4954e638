"""Dark launch: callers get the old store's answer, the new store is asked beside it, and the two are compared.

Nothing of it is on the caller's path but a draw and a place in a bounded queue: when that is full, or a sample has
waited too long, the sample is dropped and counted. Differences by lag are told from real ones by position:

1. Ask the new store. The same: `equal`.
2. Note the old store's position P, which is behind all that its answer showed. Wait until the new store covers P.
3. Ask the new store again, then the old one. The old answer stands: what differs from it now is real, and if nothing
   does it was `lag`. The old answer has changed meanwhile: it takes the place of the first, from 2.

A sample that cannot be decided before its deadline is `unsettled`. Waiting takes no thread: those that wait are looked
through a few times a second, with one question for the new store's position.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from include.clock import Clock
from include.errors import LyrebirdError
from include.metrics.exporter import Metrics
from include.record.position import SourcePosition
from include.search.dark_launch.compare import AnswerDifference, ComparisonRules, Listing, differences
from include.search.dark_launch.report import DarkReport

__all__ = ["DarkLaunch", "Limits", "Question", "Stores"]

T = TypeVar("T")
_POLL_S: Final = 0.1
_REST_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Question:
    """What both stores are asked, as their callers mean it: e.g. ("user", "7", 20)."""

    kind: str
    value: str
    size: int

    def __str__(self) -> str:
        return f"{self.kind} {self.value}, {self.size} at most"


@dataclass(frozen=True)
class Stores:
    """Both sides, safe to be called from several threads. Positions are None where a store does not say.

    `old_position`: whatever `old` answered before is below it. `new_covers`: all before it is in what `new` answers.
    """

    old: Callable[[Question], Listing]
    new: Callable[[Question], Listing]
    old_position: Callable[[], SourcePosition | None]
    new_covers: Callable[[], SourcePosition | None]


@dataclass(frozen=True, slots=True)
class Limits:
    """`sample`: share of questions that are compared; `queued`: most that are undecided at a time.

    `deadline_s`: from the answer until a sample is decided.
    """

    sample: float = 0.01
    queued: int = 100
    deadline_s: float = 30.0


@dataclass(slots=True)
class _Sample:
    """`answer` is the old store's newest; until the new store covers `position`, or until `rested_s`, it waits."""

    question: Question
    answer: Listing
    at_s: float
    until_s: float
    position: SourcePosition | None = None
    rested_s: float = 0.0


class _Verdict(NamedTuple):
    outcome: str
    found: list[AnswerDifference]
    lag_s: float = 0.0


class _Undecided(Exception):
    """`late` or `old store`: why nothing is known of a sample."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_Step = tuple[Callable[[_Sample], _Verdict | None], _Sample]
"""What is to be done with a sample; it gives no verdict while the sample waits."""


class DarkLaunch:
    """Compares samples on threads of its own (`start`), or as `settle_next` is called.

    Args:
        stores: both sides.
        rules: how answers are compared.
        clock: for times and waits.
        limits: of samples; None: those of `Limits`.
        metrics: counts verdicts, and samples that were dropped; None: nobody reads them.
        rng: draws samples; None: a generator of its own.
    """

    def __init__(
        self,
        stores: Stores,
        rules: ComparisonRules,
        clock: Clock,
        limits: Limits | None = None,
        metrics: Metrics | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.report = DarkReport.begin(clock.now_us())
        self._stores = stores
        self._rules = rules
        self._clock = clock
        self._limits = limits or Limits()
        self._metrics = metrics
        self._rng = rng or random.Random()  # noqa: S311 - draws samples, keeps no secret
        self._steps: queue.SimpleQueue[_Step | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        # Guards what follows.
        self._lock = threading.Condition()
        self._waiting: list[_Sample] = []
        self._undecided = 0

    def ask(self, question: Question) -> Listing:
        """The old store's answer; raises what it raises. A sample of the questions is compared afterwards."""
        answer = self._stores.old(question)
        if self._rng.random() < self._limits.sample:
            with self._lock:
                accepted = self._undecided < self._limits.queued
                self._undecided += accepted
            if accepted:
                at_s = self._clock.monotonic_s()
                self._steps.put((self._first, _Sample(question, answer, at_s, at_s + self._limits.deadline_s)))
            else:
                self._dropped("overload")
        return answer

    def settle_next(self) -> bool:
        """Take one step, or rest a little where all samples wait; False when none is undecided."""
        try:
            step = self._steps.get_nowait()
        except queue.Empty:
            if not self._waiting:
                return False
            self._release()
            return True
        if step is not None:
            self._take(*step)
        return True

    def start(self, threads: int = 1) -> None:
        """Decide samples from now on."""
        for number in range(threads):
            thread = threading.Thread(target=self._run, name=f"dark-launch-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)
        threading.Thread(target=self._wait, name="dark-launch-waits", daemon=True).start()

    def close(self) -> DarkReport:
        """Decide what waits, end the threads; the report."""
        if self._threads:
            with self._lock:
                self._lock.wait_for(lambda: not self._undecided)
            for _ in self._threads:
                self._steps.put(None)
            for thread in self._threads:
                thread.join()
            with self._lock:
                self._threads.clear()
                self._lock.notify_all()
        while self.settle_next():
            pass
        with self._lock:
            self.report.ended_us = self._clock.now_us()
        return self.report

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            self._take(*step)

    def _wait(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._waiting or not self._threads)
                if not self._threads:
                    return
            self._release()

    def _take(self, work: Callable[[_Sample], _Verdict | None], sample: _Sample) -> None:
        question = str(sample.question)
        try:
            verdict = work(sample)
        except _Undecided as error:
            self._dropped(error.reason, was_accepted=True)
            return
        except Exception as error:  # noqa: BLE001 - whatever the new store does is a finding, and no end of comparing
            verdict = _Verdict("failed", [])
            with self._lock:
                self.report.failed(question, str(error) or repr(error))
        if verdict is None:
            return
        with self._lock:
            self.report.compared(question, verdict.outcome, verdict.found, verdict.lag_s)
            self._undecided -= 1
            self._lock.notify_all()
        if self._metrics is not None:
            kinds: set[str] = {each.kind for each in verdict.found}
            for name in kinds or {verdict.outcome}:
                self._metrics.count("lyrebird_compared_total", kind=name)

    def _first(self, sample: _Sample) -> _Verdict | None:
        if self._clock.monotonic_s() >= sample.until_s:
            raise _Undecided("late")
        if not differences(sample.answer, self._stores.new(sample.question), self._rules):
            return _Verdict("equal", [])
        self._await(sample)
        return None

    def _await(self, sample: _Sample) -> None:
        """Let the sample wait until the new store covers where the old one is; where none is told a rest must do."""
        sample.position = _of_old(self._stores.old_position)
        sample.rested_s = min(self._clock.monotonic_s() + _REST_S, sample.until_s)
        with self._lock:
            self._waiting.append(sample)
            self._lock.notify_all()

    def _again(self, sample: _Sample) -> _Verdict | None:
        found = differences(sample.answer, self._stores.new(sample.question), self._rules)
        again = _of_old(lambda: self._stores.old(sample.question))
        now_s = self._clock.monotonic_s()
        if not differences(sample.answer, again, self._rules):
            return _Verdict("differs" if found else "lag", found, now_s - sample.at_s)
        if now_s >= sample.until_s:
            return _Verdict("unsettled", [])
        sample.answer = again
        self._await(sample)
        return None

    def _release(self) -> None:
        """Look through those that wait: on with what is covered, an end to what is late; a rest where that is none."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        covered: SourcePosition | None = None
        late: Callable[[_Sample], _Verdict | None] = _unsettled
        try:
            covered = self._stores.new_covers()
        except Exception as error:  # noqa: BLE001 - told of samples that are late, the others wait on
            late = _raising(error)
        now_s, steps, still = self._clock.monotonic_s(), list[_Step](), list[_Sample]()
        for sample in waiting:
            if self._ready(sample, covered, now_s):
                steps.append((self._again, sample))
            elif now_s >= sample.until_s:
                steps.append((late, sample))
            else:
                still.append(sample)
        with self._lock:
            self._waiting += still
        for step in steps:
            self._steps.put(step)
        if not steps:
            self._clock.sleep(_POLL_S)

    def _ready(self, sample: _Sample, covered: SourcePosition | None, now_s: float) -> bool:
        if sample.position is None:
            return now_s >= sample.rested_s
        return covered is not None and covered.covers(sample.position)

    def _dropped(self, reason: str, *, was_accepted: bool = False) -> None:
        with self._lock:
            self.report.drop(reason)
            self._undecided -= was_accepted
            self._lock.notify_all()
        if self._metrics is not None:
            self._metrics.count("lyrebird_samples_dropped_total", kind=reason)


def _unsettled(_sample: _Sample) -> _Verdict:
    return _Verdict("unsettled", [])


def _raising(error: Exception) -> Callable[[_Sample], _Verdict | None]:
    """A step that ends as the new store's refusal to say its position did."""

    def work(_sample: _Sample) -> None:
        raise error

    return work


def _of_old(ask: Callable[[], T]) -> T:
    """The old store's answer to a question that no caller waits for."""
    try:
        return ask()
    except LyrebirdError as error:
        raise _Undecided("old store") from error
