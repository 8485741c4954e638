"""Dark launch: callers get the old store's answer, the new store is asked beside it, and the two are compared.

Nothing of it is on the caller's path but a draw and a place in a bounded queue: when that is full, or a sample has
waited too long, the sample is dropped and counted. Differences by lag are told from real ones by position:

1. Ask the new store. The same: `equal`.
2. Note the old store's position P, which is behind all that its answer showed. Wait until the new store covers P.
3. Ask the new store again, then the old one. The old answer stands: what differs from it now is real, and if nothing
   does it was `lag`. The old answer has changed meanwhile: it takes the place of the first, from 2.

A sample that cannot be decided before its deadline is `unsettled`.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from include.clock import Clock
from include.errors import LyrebirdError
from include.metrics.exporter import Metrics
from include.record.position import SourcePosition
from include.search.compare import Difference, Listing, Rules, differences
from include.search.dark_report import DarkReport

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
    """`sample`: share of questions that are compared; `deadline_s`: from the answer until a sample is decided."""

    sample: float = 0.01
    queued: int = 100
    deadline_s: float = 30.0


@dataclass(frozen=True, slots=True)
class _Sample:
    question: Question
    answer: Listing
    at_s: float


class _Undecided(Exception):
    """`late` or `old store`: why nothing is known of a sample."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DarkLaunch:
    """Compares samples on threads of its own (`start`), or as `settle_next` is called."""

    def __init__(
        self,
        stores: Stores,
        rules: Rules,
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
        self._queue: queue.Queue[_Sample | None] = queue.Queue(self._limits.queued)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def ask(self, question: Question) -> Listing:
        """The old store's answer; raises what it raises. A sample of the questions is compared afterwards."""
        answer = self._stores.old(question)
        if self._rng.random() < self._limits.sample:
            try:
                self._queue.put_nowait(_Sample(question, answer, self._clock.monotonic_s()))
            except queue.Full:
                self._dropped("overload")
        return answer

    def settle_next(self) -> bool:
        """Decide one sample that waits; False when none does."""
        try:
            sample = self._queue.get_nowait()
        except queue.Empty:
            return False
        if sample is not None:
            self._settle(sample)
        return True

    def start(self, threads: int = 1) -> None:
        """Decide samples from now on."""
        for number in range(threads):
            thread = threading.Thread(target=self._run, name=f"dark-launch-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> DarkReport:
        """Decide what waits, end the threads; the report."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        while self.settle_next():
            pass
        with self._lock:
            self.report.ended_us = self._clock.now_us()
        return self.report

    def _run(self) -> None:
        while True:
            sample = self._queue.get()
            if sample is None:
                return
            self._settle(sample)

    def _settle(self, sample: _Sample) -> None:
        found: list[Difference] = []
        lag_s = 0.0
        try:
            outcome, found, lag_s = self._decided(sample)
        except _Undecided as error:
            self._dropped(error.reason)
            return
        except Exception as error:  # noqa: BLE001 - whatever the new store does is a finding, and no end of comparing
            outcome = "failed"
            with self._lock:
                self.report.failed(str(sample.question), str(error) or repr(error))
        with self._lock:
            self.report.compared(str(sample.question), outcome, found, lag_s)
        if self._metrics is not None:
            kinds: set[str] = {each.kind for each in found}
            for name in kinds or {outcome}:
                self._metrics.count("lyrebird_compared_total", kind=name)

    def _decided(self, sample: _Sample) -> tuple[str, list[Difference], float]:
        """Outcome, real differences, and for `lag` how long it took."""
        stores, question, old = self._stores, sample.question, sample.answer
        until_s = sample.at_s + self._limits.deadline_s
        if self._clock.monotonic_s() >= until_s:
            raise _Undecided("late")
        if not differences(old, stores.new(question), self._rules):
            return "equal", [], 0.0
        while True:
            if not self._caught_up(_of_old(stores.old_position), until_s):
                return "unsettled", [], 0.0
            found = differences(old, stores.new(question), self._rules)
            again = _of_old(lambda: stores.old(question))
            if not differences(old, again, self._rules):
                return ("differs" if found else "lag"), found, self._clock.monotonic_s() - sample.at_s
            if self._clock.monotonic_s() >= until_s:
                return "unsettled", [], 0.0
            old = again

    def _caught_up(self, position: SourcePosition | None, until_s: float) -> bool:
        """Whether the new store came to cover `position` in time; of a store that says none a rest must do."""
        if position is None:
            self._clock.sleep(min(_REST_S, max(0.0, until_s - self._clock.monotonic_s())))
            return True
        while True:
            covered = self._stores.new_covers()
            if covered is not None and covered.covers(position):
                return True
            if self._clock.monotonic_s() >= until_s:
                return False
            self._clock.sleep(_POLL_S)

    def _dropped(self, reason: str) -> None:
        with self._lock:
            self.report.drop(reason)
        if self._metrics is not None:
            self._metrics.count("lyrebird_samples_dropped_total", kind=reason)


def _of_old(ask: Callable[[], T]) -> T:
    """The old store's answer to a question that no caller waits for."""
    try:
        return ask()
    except LyrebirdError as error:
        raise _Undecided("old store") from error
