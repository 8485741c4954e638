"""The log in Spark: what every application reads with (`datasource_spark` is the source itself).

What a stream promises: each committed record from `start` on appears in exactly one batch, a batch that is run again
reads the same records, and no batch goes back. Checkpoints are disposable: `start` comes from the sink.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import operator
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkConf, SparkContext, StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from include.clock import SystemClock
from include.log.planning.plan import BatchPlan, Cut, StreamSpec, batch_plan
from include.log.planning.planner import bounded
from include.log.planning.slices import Slice
from include.log.planning.survey import KafkaSurvey
from include.log.planning.tail import newest_cut
from include.log.running.datasource_spark import FORMAT, ROW_SCHEMA, SLICE_SCHEMA, log_source
from include.log.running.exchange import (
    FramePiece,
    InlineResults,
    StoredResults,
    applied,
    frames_of,
    near,
    partition_of_bucket,
    passed_on,
    placed,
    shared,
    whole,
)
from include.log.running.failure import lyrebird_error
from include.log.running.spark_home import spark_home
from include.log.running.spark_settings import CHECKPOINT, TALKATIVE, settings
from include.log.running.supervised import SupervisedRun, checkpoint_folder, stop_signal
from include.log.running.worker_memory import to_the_end
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.settings.environment import cache_folder, environment

__all__ = [
    "ROW_SCHEMA",
    "SLICE_SCHEMA",
    "BatchPlan",
    "Cut",
    "batch_plan",
    "exchange",
    "homes_of",
    "newest_cut",
    "own_errors",
    "read_batch",
    "read_stream",
    "run",
    "session",
    "telling",
    "trigger_s",
    "warm",
    "work_off",
]

S = TypeVar("S")
T = TypeVar("T")
_STARTING: Final = threading.Lock()
_REGISTERING: Final = threading.Lock()
_BATCHES_A_SECOND: Final = 4
_TRIGGER_S: Final = 0.4
_WARM_S: Final = 30.0
_ENDED_S: Final = 5.0


def session(application: str, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session that knows the log, with settings fit for micro-batches.

    What spark-submit was given wins over `conf`, and `conf` over the defaults here. Without a master from outside it
    is `$LYREBIRD_SPARK_MASTER`, else `local[2]`. A driver on this machine maps `$LYREBIRD_SPARK_CLASSES`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    outside: dict[str, str] = {}
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Only with its gateway attached does SparkConf see what spark-submit was given.
        SparkContext._ensure_initialized()  # noqa: SLF001
        outside = dict(SparkConf().getAll())
    elif os.environ["PYSPARK_PYTHON"] == sys.executable:
        os.environ.setdefault("SPARK_HOME", str(spark_home(cache_folder())))
    names = environment()
    wanted = settings(
        application,
        given=conf or {},
        outside=outside,
        master=names.get("LYREBIRD_SPARK_MASTER", "local[2]"),
        root=Path(__file__).resolve().parents[3],
        classes=names.get("LYREBIRD_SPARK_CLASSES", ""),
    )
    builder: Any = SparkSession.builder
    for name, value in wanted.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    _silence(spark, *TALKATIVE)
    return spark


def _loaded(spark: SparkSession, reader: Any, spec: StreamSpec, **more: str) -> DataFrame:
    """The log as `spec` says. The class is registered anew for each: it holds the options of Kafka's clients."""
    with _REGISTERING:
        spark.dataSource.register(log_source(spec.options))
        frame: DataFrame = reader.format(FORMAT).options(spec=spec.to_text(), **more).load()
        return frame


def _silence(spark: SparkSession, *names: str) -> None:
    log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001
    for name in names:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)


def read_stream(
    spark: SparkSession,
    *,
    bootstrap: str,
    topics: Sequence[str],
    start: Mapping[str, Mapping[int, int]] | None = None,
    cut_at: tuple[str, ...] = (),
    cut_limit: int | None = None,
    limit: int | None = None,
    limits: Mapping[str, int] | None = None,
    total_limit: int | None = None,
    slice_s: float | None = None,
    tasks: int = 2,
    topic_ids: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """A streaming DataFrame of `ROW_SCHEMA`: the committed records of `topics`, in batches.

    Args:
        spark: made by `session`.
        bootstrap: the brokers.
        topics: may be absent still: they are waited for.
        start: topic -> partition -> next offset; what it does not name is read from the beginning.
        cut_at: resolved topics. Every batch then ends at later records than the last, of one of them at least
            (`BatchPlan.cuts`), also when nothing else came; topics that they do not speak for are read to their own
            ends on the way.
        cut_limit: most offsets of a batch, of all partitions together, as far as resolved records lie that close;
            without, a batch goes to the newest ones, however much that is.
        limit: most offsets of a partition in one batch. A step to later resolved records that exceeds it is gone in
            parts, and so is one that exceeds the next two: batches on the way have no cuts.
        limits: the same, per topic.
        total_limit: most offsets of all partitions together; with `cut_at`, of those that the records speak for.
        slice_s: while much is unread, a batch ends in each partition at the first record whose timestamp is past a
            slice of time of that length, the same for all; of topics that no resolved record speaks for.
        tasks: most Spark tasks that a batch is spread over; a partition is read by one.
        topic_ids: ids that `start` belongs to.
        options: librdkafka's own.

    The query fails with `Terminal` when a topic has another id than the offsets belong to, or `start` is not held any
    more; with `Transient` when a task hears nothing for a minute. A broker that is away while no batch runs is waited
    for.
    """
    spec = StreamSpec(
        bootstrap,
        tuple(dict.fromkeys(topics)),
        start or {},
        cut_at,
        limit,
        limits or {},
        tasks,
        topic_ids or {},
        dict(options or {}),
        cut_limit=cut_limit,
        total_limit=total_limit,
        slice_s=slice_s,
    )
    with _STARTING:
        return _loaded(spark, spark.readStream, spec)


def read_batch(
    spark: SparkSession,
    *,
    bootstrap: str,
    topics: Sequence[str],
    start: Mapping[str, Mapping[int, int]] | None = None,
    end: Mapping[str, Mapping[int, int]] | None = None,
    tasks: int = 2,
    slices: bool = False,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The rows of `read_stream`, bounded by this call: every action on the DataFrame reads the same records.

    Args:
        spark: made by `session`.
        bootstrap: the brokers.
        topics: names; each has to be there.
        start: topic -> partition -> next offset; what it does not name is read from the beginning.
        end: the same, exclusive; what it does not name is read to its last stable offset.
        tasks: most Spark tasks that it is spread over.
        slices: rows of `SLICE_SCHEMA` instead: start <= offset < end of a partition, for tasks that read them by
            `slices.cached_consumer`, so that no record goes through the JVM. Where the order within a partition does
            not matter: its range is cut where that makes tasks equal.
        options: librdkafka's own.

    Raises:
        Terminal: a topic does not exist, or `start` is not held any more.
        Transient: the log does not answer.
    """
    names = tuple(dict.fromkeys(topics))
    spec = StreamSpec(bootstrap, names, start or {}, tasks=tasks, slices=slices, options=dict(options or {}))
    offset = bounded(spec, KafkaSurvey(bootstrap, spec.options), end or {})
    return _loaded(spark, spark.read, spec, offset=offset.to_text())


def trigger_s(streams: int) -> float:
    """Least seconds between two batches of each of so many streams of one driver, which begins four a second at most.

    A batch takes a driver some 0.1 s of CPU, also where nothing happens but that sources say how far they are.
    """
    return max(_TRIGGER_S, streams / _BATCHES_A_SECOND)


def run(
    df: DataFrame,
    on_batch: Callable[[DataFrame, BatchPlan], Mapping[str, Any] | None],
    *,
    application: str,
    run_folder: RunFolder,
    metrics: Metrics,
    part: str = "",
    trigger_s: float = 0.5,
    checkpoint: Path | None = None,
    keep_session: bool = False,
    asked: threading.Event | None = None,
) -> None:
    """Run a stream of `read_stream` until it is asked to stop (file `stop` of the run folder, or SIGTERM).

    Args:
        df: the stream.
        on_batch: does the work of one batch, all of it, before it returns; what it returns goes to progress.json.
            Of it `read` is taken for the number of records, `requests` for work that waits beside them.
            Each action on its DataFrame reads the batch from the log again. A batch may come twice after a failure.
        application: name for logs and metrics.
        run_folder: where progress goes and the stop request comes from.
        metrics: rows, batches, batch_seconds, lag_records per topic, lag_seconds and position (streams with a cut).
        part: of an application that runs several streams at once, each by a call of its own: which one this is.
        trigger_s: least time between the begins of two batches; on a slow machine it is longer (`pause_s`).
        checkpoint: default a fresh temporary folder: the sink says where to start.
        keep_session: leave the Spark session running.
        asked: set by SIGTERM, so that a batch that waits for a server hears of it.

    At a stop the running batch is finished, then query and session end and the call returns.

    Raises:
        LyrebirdError: what ended the query, in one line: an error of ours with its class, wherever it was raised
            (`on_batch`, a task, the planner); else `Transient` with the cause's last line.
    """
    clock = SystemClock()
    supervised = SupervisedRun(application, run_folder, metrics, clock, part)
    spark = df.sparkSession
    called = f"{application}.{part}" if part else application
    listener = _Listener(supervised, spark, called)
    spark.streams.addListener(listener)
    for name, value in CHECKPOINT.items():
        spark.conf.set(name, value)
    try:
        # From before the first batch on: a signal must end none halfway.
        with stop_signal(asked) as signalled, checkpoint_folder(application, checkpoint) as folder:

            def work(rows: DataFrame, batch_id: int) -> None:
                plan, begin_s = batch_plan(folder, batch_id), clock.monotonic_s()
                supervised.batch(batch_id, plan, lambda: on_batch(rows, plan))
                supervised.pause(clock.monotonic_s() - begin_s, plan, signalled)

            writer = df.writeStream.queryName(called).foreachBatch(work)
            writer = writer.option("checkpointLocation", folder.as_uri())
            # Spark gives each Python process of a stream that starts ten seconds to answer: of an application's several
            # streams one starts after the other.
            with _STARTING:
                query = writer.trigger(processingTime=f"{round(trigger_s * 1000)} milliseconds").start()
                supervised.await_begun(query)
            # Spark ends workers that had nothing to do for a minute.
            with _beside(lambda: warm(spark, _nothing), _WARM_S):
                supervised.until_stopped(query, signalled)
        if supervised.failure is not None:
            raise supervised.error(supervised.failure)
    except PySparkException as failed:
        raise supervised.error(failed) from (supervised.failure or failed)
    finally:
        spark.streams.removeListener(listener)
        if not keep_session:
            spark.stop()


def work_off(spark: SparkSession, task: Callable[[S], T], shares: Sequence[S]) -> Iterator[T]:
    """What `task` makes of each of the shares, in their order, once Spark's workers are through with all of them.

    For tasks that read for themselves (`slices.cached_consumer`): a stream's own rows would be planned, read by a
    further Python process and brought through the JVM, which takes a small batch more time than its work. Arguments
    and results are pickled; results are unpickled one at a time, as they take many times the memory then.

    Raises, at the call, what a task does: an error of ours as its own class, others as Spark's.
    """
    told = functools.partial(to_the_end, functools.partial(map, functools.partial(_pickled, task)))
    with own_errors():
        found = spark.sparkContext.parallelize(shares, max(1, len(shares))).mapPartitions(told).collect()
    return map(pickle.loads, found)  # noqa: S301 - this application's own workers made them


def exchange(
    spark: SparkSession,
    read: Callable[[Sequence[Slice]], Mapping[int, bytes]],
    shares: Sequence[Sequence[Slice]],
    apply: Callable[[int, list[bytes]], T],
    *,
    buckets: int,
    middle: Callable[[int, list[bytes]], Mapping[int, bytes]] | None = None,
    tasks: int | None = None,
    homes: RDD[int] | None = None,
    keep: bool = False,
    share_bytes: int = 16 << 20,
) -> Iterator[tuple[int, T]]:
    """As `work_off`, with one shuffle between: tasks read, their frames go to buckets, tasks apply these.

    Args:
        spark: made by `session`.
        read: gives one packed frame, which may be empty, for each bucket that its share has something for.
        shares: what each reading task reads.
        apply: called for each bucket that a frame came for, with its frames by the number of their task: a batch that
            is run again gives the same. A task calls it for its buckets in order, one after the other, and has all
            their frames in memory. It may be called again for a bucket, on another executor too, until the caller has
            gone through the results: it has to give the same again.
        middle: a stage between, with a shuffle of its own: called as `apply`, it gives frames for its buckets as `read`
            does. May be called again, too, and then has to do the same work again.
        buckets: how many there are; which task has one rests on this and on `tasks` alone.
        tasks: how many apply; default one for each of Spark's cores. Each task costs a small batch more than its work
            does; one share and one task need no shuffle, and are a job of one task.
        homes: of `homes_of`; each of its partitions is a task then (`tasks` says nothing), which runs where it ran
            before if it can.
        keep: results are expected to be large: executors keep them on their disks, which takes a small batch a quarter
            longer. Without, tasks whose results are too large to come with the job apply a second time.
        share_bytes: most bytes of results that come to the driver at once. All together, if they are so few, with the
            job itself; else by further jobs of so many, while the caller goes through the results.

    Gives (bucket, result) in the order of buckets. All buckets are through when the call returns.

    Raises, at the call, what a task does: an error of ours as its own class, others as Spark's.
    """
    context = spark.sparkContext
    tasks = min(tasks or context.defaultParallelism, buckets) if homes is None else homes.getNumPartitions()
    own = functools.partial(partition_of_bucket, buckets=buckets, tasks=tasks)
    frames = context.parallelize(list(enumerate(shares)), max(1, len(shares))).mapPartitions(
        functools.partial(to_the_end, functools.partial(_frames, read))
    )
    if tasks > 1 or len(shares) > 1:
        frames = frames.partitionBy(tasks, own)
    if middle is not None:
        frames = frames.mapPartitions(functools.partial(to_the_end, functools.partial(passed_on, middle)))
        if tasks > 1:
            frames = frames.partitionBy(tasks, own)
    if homes is not None:
        # Spark places a task by the first of its parents that it finds cached.
        frames = homes.zip(frames.glom()).flatMap(operator.itemgetter(1))
    results = frames.mapPartitions(functools.partial(to_the_end, functools.partial(applied, apply)))
    if keep:
        results.persist(StorageLevel.DISK_ONLY)
    try:
        with own_errors():
            collected = results.mapPartitions(functools.partial(near, share_bytes // tasks)).collect()
    except BaseException:
        _forget(results)
        raise
    if all(isinstance(each, InlineResults) for each in collected):
        _forget(results)
    return _results(collected, results, share_bytes)


def homes_of(spark: SparkSession, tasks: int) -> RDD[int]:
    """Where `tasks` tasks of an `exchange` live: an executor each, for as long as it lasts, then another.

    For the life of an application with several executors. A preference: a task waits for its executor as long as
    `spark.locality.wait` says (0 by default: not at all), and shuffled data must not draw it away
    (`spark.shuffle.reduceLocality.enabled` false). It costs a batch a further pass of its frames through Python.
    """
    homes = spark.sparkContext.parallelize(range(tasks), tasks).persist()
    homes.count()
    return homes


def _results(
    found: Sequence[InlineResults | StoredResults], results: RDD[FramePiece], share_bytes: int
) -> Iterator[tuple[int, Any]]:
    places, count = shared(found, share_bytes)

    def far() -> Iterator[FramePiece]:
        # One partition a share, which is one job.
        parted = results.mapPartitionsWithIndex(functools.partial(placed, places)).partitionBy(count, int)
        with own_errors():
            for _, share in itertools.groupby(parted.toLocalIterator(), key=operator.itemgetter(0)):
                yield from sorted(piece for _, piece in share)

    def pieces() -> Iterator[FramePiece]:
        there = far() if places else iter(())
        for each in found:
            yield from each.pieces if isinstance(each, InlineResults) else itertools.islice(there, len(each.sizes))

    try:
        for bucket, result in whole(pieces()):
            yield bucket, pickle.loads(result)  # noqa: S301 - this application's own workers made it
    finally:
        _forget(results)


def _forget(results: RDD[FramePiece]) -> None:
    if results.is_cached:
        results.unpersist()


@contextlib.contextmanager
def own_errors() -> Iterator[None]:
    """What Spark raises because a task raised an error of ours is raised as that error, of its own class."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as failed:
        ours = lyrebird_error(str(failed))
        if ours is None:
            raise
        raise ours from failed


@contextlib.contextmanager
def telling(spark: SparkSession, tell: Callable[[], None], every_s: float = 1.0) -> Iterator[None]:
    """Calls `tell`, from a thread of its own, whenever tasks of Spark's jobs were done since it last looked.

    A job whose tasks stand still is not told of, so who watches over the application sees that it hangs.
    """
    tracker = spark.sparkContext.statusTracker()
    seen: list[tuple[int, int]] = []

    def look() -> None:
        stages = ((stage, tracker.getStageInfo(stage)) for stage in tracker.getActiveStageIds())
        now = sorted((stage, info.numCompletedTasks) for stage, info in stages if info is not None)
        if now != seen:
            seen[:] = now
            tell()

    with _beside(look, every_s):
        yield


@contextlib.contextmanager
def _beside(work: Callable[[], object], every_s: float) -> Iterator[None]:
    """Calls `work` every so many seconds from a thread of its own, which ends with the first error."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(every_s):
            work()

    thread = threading.Thread(target=go_on, name="beside", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        # Work that waits for executors that are gone has no end.
        thread.join(_ENDED_S)


def _frames(
    read: Callable[[Sequence[Slice]], Mapping[int, bytes]], shares: Iterable[tuple[int, Sequence[Slice]]]
) -> Iterator[tuple[int, FramePiece]]:
    return itertools.chain.from_iterable(map(functools.partial(frames_of, read), shares))


def _pickled(task: Callable[[S], object], share: S) -> bytes:
    return pickle.dumps(task(share), pickle.HIGHEST_PROTOCOL)


def _nothing(_: Sequence[Slice]) -> None:
    pass


def warm(spark: SparkSession, task: Callable[[Sequence[Slice]], T]) -> None:
    """Start Spark's Python workers, with what `task` needs, before there is work for it: that takes seconds."""
    work_off(spark, task, [[]] * spark.sparkContext.defaultParallelism)


class _Listener(StreamingQueryListener):
    """Spark's reports, on to `SupervisedRun`.

    Called by the JVM itself, in place of PySpark's adapter, which copies a report field by field: at the end of each
    Java collection in it an exception is translated, for which the JVM looks through all jars, and that took more of
    its time than the batches did.
    """

    def __init__(self, supervised: SupervisedRun, spark: SparkSession, query: str) -> None:
        self._supervised, self._query, self._run = supervised, query, ""
        java: Any = spark._jvm.org.apache.spark.sql.streaming  # type: ignore[union-attr]  # noqa: SLF001
        self._jlistenerobj = java.PythonStreamingQueryListenerWrapper(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        # It hears of all queries of the session.
        if event.name() == self._query:
            self._run = str(event.runId())
            self._supervised.started()

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if str(event.progress().runId()) == self._run:
            self._supervised.heard(json.loads(event.progress().json()))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        if str(event.runId()) == self._run:
            self._supervised.idle()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    class Java:
        """What py4j shows the JVM."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
