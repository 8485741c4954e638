"""A running query as its guardian sees it: progress out, a stop request in, the first failure kept.

Knows no Spark: `batches_spark.run` hands it batches and Spark's own reports.
"""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from include.clock import Clock
from include.errors import LyrebirdError, Transient
from include.log.planning.plan import BatchPlan, ResolvedCuts
from include.log.running.failure import first_line, lyrebird_error
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder

__all__ = [
    "ApplicationEnding",
    "SupervisedRun",
    "checkpoint_folder",
    "lag_by_topic",
    "once_there",
    "pause_s",
    "run_beside",
    "stop_signal",
]

LOGGER: Final = logging.getLogger("lyrebird.stream")
_ASK_EVERY_S: Final = 0.25
_SETTLE_S: Final = 3.0
_BEGINS_WITHIN_S: Final = 60.0
_PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.5
# With a thousand, a busy shop's orders came 0.4 s later on two slow cores: there are two pauses on their way.
_FEW_RECORDS: Final = 100
_PAUSES_OF_A_BATCH: Final = 2
_MOST_PAUSE_S: Final = 1.0


T = TypeVar("T")


class RunningQuery(Protocol):
    """What is asked of Spark's `StreamingQuery`."""

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether it has not ended."""

    def awaitTermination(self, timeout: Any = None) -> bool | None:  # noqa: N802
        """Whether it ended within so many seconds; raises what it failed with."""

    def stop(self) -> None:
        """End it; the thread that runs its batches is interrupted."""


class ApplicationEnding(Exception):
    """A batch came up after the application had begun to end: it is left to the next run."""


class SupervisedRun:
    """State of one run. `batch` is called by Spark's thread, the rest by the main thread and the listener's."""

    def __init__(self, application: str, run_folder: RunFolder, metrics: Metrics, clock: Clock, part: str = "") -> None:
        """`part`: of an application that has several; its gauges are of this kind."""
        self._application = application
        self._part = part
        self._run_folder = run_folder
        self._metrics = metrics
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._gate = threading.Lock()
        self._writing = threading.Lock()
        self._draining = False
        self._batch_id = -1
        self._begun = threading.Event()
        self._settled = threading.Event()
        self._settled.set()
        self._fields: dict[str, Any] = {}
        self._commit_us: int | None = None
        self._read: int | None = None
        self._lag = 0
        self._paused_s = 0.0
        self.failure: BaseException | None = None

    def batch(self, batch_id: int, plan: BatchPlan, work: Callable[[], Mapping[str, Any] | None]) -> None:
        """Do the work of a batch and tell of it; keeps what it raises, and raises it again.

        Raises:
            ApplicationEnding: `drain` was called before.
        """
        with self._gate:
            if self._draining:
                raise ApplicationEnding
            self._begun.set()
            self._batch_id = batch_id
            self._settled.clear()
            try:
                told = work()
            except BaseException as error:
                self.failure = self.failure or error
                self._settled.set()
                raise
            if plan.cuts:
                self._commit_us = min(cut.position.commit_us for cut in plan.cuts.values())
                self._metrics.set("lyrebird_position_commit_seconds", self._commit_us / 1e6, self._part)
                # Of one source, as long as no other one has said anything.
                for name in ("position", "sequence"):
                    self._fields.pop(name, None)
            self._read = (told or {}).get("read")
            # Written with Spark's report on the batch: a file and its fsync would only hold the next batch up here.
            self._fields.update(batch=batch_id, **_of_cuts(plan.cuts), **dict(told or {}))

    def pause(self, took_s: float, plan: BatchPlan, signalled: threading.Event) -> None:
        """Let nothing begin for `pause_s` after a batch, or until `signalled`; it is no part of the batch's seconds.

        Not while records wait, or requests that the work tells of as `requests`.
        """
        waiting = self._fields.get("requests") or 0
        self._paused_s = 0.0 if waiting else pause_s(took_s, max(plan.records, self._lag))
        signalled.wait(self._paused_s)

    def await_begun(self, query: RunningQuery) -> None:
        """Returns when the first batch begins, when there is none to begin with, or when `query` has ended.

        After a minute in any case: a log that does not answer holds up no other stream.
        """
        for _ in range(round(_BEGINS_WITHIN_S / _ASK_EVERY_S)):
            if self._begun.wait(_ASK_EVERY_S) or not query.isActive:
                return

    def drain(self) -> None:
        """Returns when no batch runs and Spark has noted down the last one; none begins afterwards."""
        with self._gate:
            self._draining = True
        # A query that is stopped while it writes its commit log is not hurt, but prints a long trace.
        self._settled.wait(_SETTLE_S)

    def until_stopped(self, query: RunningQuery, signalled: threading.Event) -> None:
        """Returns when a stop was asked for (run folder or `signalled`), the running batch is done and `query` is off.

        Raises what `query` failed with.
        """
        try:
            while not (self._run_folder.stop_requested() or signalled.is_set()):
                if query.awaitTermination(_ASK_EVERY_S):
                    break
            self.drain()
        finally:
            query.stop()

    def heard(self, progress: Mapping[str, Any]) -> None:
        """Take Spark's report on a batch that has ended (its JSON form)."""
        if progress["batchId"] >= self._batch_id:
            self._settled.set()
        (source,) = progress["sources"]
        lag = lag_by_topic(source.get("latestOffset"), source.get("endOffset"))
        self._lag = sum(lag.values())
        for topic, records in lag.items():
            self._metrics.set("lyrebird_lag_records", records, topic)
        # Where tasks read for themselves Spark counts nothing; the work tells how many records it read.
        rows = int(progress["numInputRows"]) if self._read is None else self._read
        self._read = None
        seconds = max(0.0, float(progress["durationMs"].get("triggerExecution", 0)) / 1000 - self._paused_s)
        self._paused_s = 0.0
        self._metrics.count("lyrebird_rows_total", rows)
        self._metrics.count("lyrebird_batches_total")
        self._metrics.set("lyrebird_batch_seconds", seconds, self._part)
        self._seen(self._lag)
        self._tell(rows=rows, lag_records=self._lag, batch_s=round(seconds, 3), **_eta(rows, seconds, lag))

    def started(self) -> None:
        """Spark has the query, and brings its source up."""
        self._seen(0)
        self._tell(idle_at_us=self._clock.now_us(), **_eta(0, 0.0, {}))

    def idle(self) -> None:
        """Triggers run, nothing is there to read: that is progress too."""
        self._begun.set()
        self.started()

    def error(self, failed: BaseException) -> LyrebirdError:
        """What ended the query, as one of ours in one line.

        Args:
            failed: what Spark raised. An error of `work` is preferred, as Spark has only its text.
        """
        cause = self.failure or failed
        if isinstance(cause, LyrebirdError):
            return cause
        for text in (str(cause), str(failed)):
            ours = lyrebird_error(text)
            if ours is not None:
                return ours
        return Transient(
            "a batch failed",
            application=self._application,
            reason=first_line(cause),
            fix="It is run again from its start; when it fails again, see the trace in the log.",
        )

    def _seen(self, lag: int) -> None:
        self._metrics.set("lyrebird_up_seconds", self._clock.monotonic_s() - self._began_s)
        if self._commit_us is not None:
            age_s = max(0.0, (self._clock.now_us() - self._commit_us) / 1e6)
            self._metrics.set("lyrebird_lag_seconds", age_s if lag else 0.0, self._part)

    def _tell(self, **fields: Any) -> None:
        with self._writing:
            self._fields.update(fields)
            self._run_folder.report(application=self._application, **self._fields)


@contextlib.contextmanager
def checkpoint_folder(application: str, given: Path | None) -> Iterator[Path]:
    """`given`, which stays, or a fresh folder that does not."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix=f"lyrebird-{application}-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def pause_s(took_s: float, records: int) -> float:
    """Seconds between the end of a batch, which took so long, and the next one: twice as long, a second at most.

    A batch of few records has its fixed cost alone, and takes the longer for it the less time the machine has to give.
    So on a slow machine more records share a batch, and audits and what starts get their part. Where a hundred
    `records` were read, or wait, there is no pause: who reads that much wants it soon.
    """
    return 0.0 if records >= _FEW_RECORDS else min(_PAUSES_OF_A_BATCH * took_s, _MOST_PAUSE_S)


@contextlib.contextmanager
def stop_signal(asked: threading.Event | None = None) -> Iterator[threading.Event]:
    """An event (`asked`, or a new one) that SIGTERM sets, in the main thread.

    Elsewhere signals stay with those who have them.
    """
    asked = asked or threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)


def once_there(
    make: Callable[[], T],
    missing: type[Exception],
    *,
    application: str,
    run_folder: RunFolder,
    asked: threading.Event,
    clock: Clock,
) -> T | None:
    """What `make` gives, as soon as what it reads is there; None when the application is asked to stop meanwhile.

    The run folder says what is waited for.

    Args:
        make: called twice a second, until it raises nothing.
        missing: error of `make` for what it reads and is not there yet: waited for, for ever.
        application: the one that waits, for the run folder.
        run_folder: says what is waited for, and may ask to stop.
        asked: set when the application is asked to stop.
        clock: measures the waiting.

    Raises:
        Transient: a server that `make` asks does not answer for a minute.
    """
    until_s = clock.monotonic_s() + _PATIENCE_S
    while not (asked.is_set() or run_folder.stop_requested()):
        try:
            return make()
        except missing as error:
            waiting_for = str(error)
        except Transient as error:
            if clock.monotonic_s() > until_s:
                raise
            LOGGER.warning("starting again: %s", error)
            waiting_for = str(error)
        run_folder.report(application=application, waiting_for=waiting_for)
        clock.sleep(_LOOK_S)
    return None


def run_beside(runs: Sequence[Callable[[], None]], asked: threading.Event) -> None:
    """Run the streams of one application until all have ended; `asked` is set by SIGTERM, and once one has failed.

    One alone runs in this thread, several in threads of their own. Raises what the first in order raised.
    """
    if len(runs) == 1:
        runs[0]()
        return
    with stop_signal(asked), ThreadPoolExecutor(len(runs)) as threads:
        futures = [threads.submit(run) for run in runs]
        wait(futures, return_when=FIRST_EXCEPTION)
        # Each sees by itself that a stop was asked for; after a failure nobody asks.
        asked.set()
    for future in futures:
        future.result()


def lag_by_topic(latest: Any, end: Any) -> dict[str, int]:
    """Records (offsets, to be exact) of each topic that lie behind `end`; both are `StreamOffset`s as JSON."""
    if not latest or not end:
        return {}
    latest, end = (json.loads(side) if isinstance(side, str) else side for side in (latest, end))
    ends = end["ends"]
    return {
        topic: sum(max(0, offset - ends.get(topic, {}).get(p, offset)) for p, offset in partitions.items())
        for topic, partitions in latest["ends"].items()
    }


def _of_cuts(cuts: ResolvedCuts) -> dict[str, Any]:
    """Of several sources the position of each, and the commit that is the longest ago; of one its sequence, too."""
    if not cuts:
        return {}
    positions: dict[str, str] = {}
    for cut in sorted(cuts.values(), key=lambda each: -each.position.commit_us):
        # Where a source speaks in several topics the last one behind counts.
        positions[cut.source] = str(cut.position.gtids)
    commit_us = min(cut.position.commit_us for cut in cuts.values())
    if len(cuts) > 1:
        return {"positions": positions, "commit_us": commit_us}
    (cut,) = cuts.values()
    return {"position": positions[cut.source], "commit_us": commit_us, "sequence": cut.sequence}


def _eta(rows: int, seconds: float, lag: Mapping[str, int]) -> dict[str, float | None]:
    """How fast the last batch was, and how long what waits takes at that rate; None where nothing waits."""
    rate, left = (rows / seconds if seconds > 0 else 0.0), sum(lag.values())
    return {"rows_per_s": round(rate, 1), "eta_s": round(left / rate, 1) if left and rate else None}
