"""Reading ranges of several partitions at once, in a Spark worker, with a consumer that lives as long as the worker.

Opening a consumer costs some 100 ms (connection, metadata), assigning one that is open a few: so consumers are kept
in the process, and a task takes one out of the pool for as long as it reads.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka import TopicPartition

from include.clock import Clock, SystemClock
from include.errors import Terminal, Transient
from include.log.kafka.errors import AT_END, NOT_HELD, ClientOptions, Connection
from include.log.planning.plan import Partition

__all__ = [
    "RangeConsumer",
    "Slice",
    "cached_consumer",
    "cut_evenly",
    "row_columns",
    "slice_columns",
    "slices_in",
    "slices_of",
    "spread",
    "tasks_for",
]

_POLL_S: Final = 0.02
_ROWS: Final = 2000
_SHARE: Final = 1000
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """The offsets start <= offset < end of a partition; half-open, not empty."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""

    @property
    def size(self) -> int:
        """Offsets, not records: gaps count."""
        return self.end - self.start


def slices_of(starts: Mapping[Partition, int], ends: Mapping[Partition, int], ids: Mapping[str, str]) -> list[Slice]:
    """The ranges of a batch that are not empty, in order."""
    return [
        Slice(topic, p, starts[topic, p], end, ids.get(topic, ""))
        for (topic, p), end in sorted(ends.items())
        if end > starts[topic, p]
    ]


def spread(slices: Iterable[Slice], tasks: int) -> list[list[Slice]]:
    """At most `tasks` groups of about the same number of offsets; none is empty, no slice is cut."""
    groups: list[list[Slice]] = [[] for _ in range(tasks)]
    loads = [0] * tasks
    for each in sorted(slices, key=lambda s: (-s.size, s)):
        lightest = loads.index(min(loads))
        groups[lightest].append(each)
        # The 1 keeps many empty-looking slices from all landing in one group.
        loads[lightest] += each.size + 1
    return [sorted(group) for group in groups if group]


def cut_evenly(slices: Iterable[Slice], tasks: int) -> list[list[Slice]]:
    """At most `tasks` groups of as good as equal offsets, cutting slices; a partition is in a group at most once."""
    ordered = sorted(slices)
    most = -(-sum(piece.size for piece in ordered) // tasks) if ordered else 0
    groups: list[list[Slice]] = []
    room = 0
    for piece in ordered:
        start = piece.start
        while start < piece.end:
            if not room:
                groups.append([])
                room = most
            end = min(piece.end, start + room)
            groups[-1].append(replace(piece, start=start, end=end))
            room -= end - start
            start = end
    return groups


def tasks_for(slices: Iterable[Slice], cores: int) -> int:
    """How many tasks are worth it: one for each core, or fewer with 1,000 offsets at least.

    With less than that a task takes longer to begin than to do, and sends what it makes in tiny requests.
    """
    return min(cores, max(1, sum(each.size for each in slices) // _SHARE))


class RangeConsumer:
    """A read_committed consumer that reads slices and then stands idle until the next ones.

    `read` may be called again after it has ended; not for use from several threads.
    """

    def __init__(
        self,
        bootstrap: str,
        options: ClientOptions | None = None,
        *,
        patience_s: float = _PATIENCE_S,
        clock: Clock | None = None,
    ) -> None:
        self._connection = Connection(bootstrap, options)
        self._patience_s = patience_s
        self._clock = clock or SystemClock()
        # Short fetch waits: the end of a range that is a transaction marker shows only by an empty fetch.
        self._consumer = self._connection.range_consumer("lyrebird-slices", fetch_wait_max_ms=10)

    def read(self, slices: Sequence[Slice]) -> Iterator[list[Any]]:
        """The committed messages of `slices` in lists, in order within a partition.

        Ends when each slice is read to its end (by a record at it or beyond, or by the partition's end), however many
        of its offsets are gaps.

        Raises:
            Transient: nothing new was heard for `patience_s`.
            Terminal: the log does not hold an offset any more, or Kafka refuses.
        """
        open_ends = {(s.topic, s.partition): s.end for s in slices}
        with self._connection.asking("assign", slices=len(slices)):
            self._consumer.assign([TopicPartition(s.topic, s.partition, s.start) for s in slices])
        heard_s = self._clock.monotonic_s()
        while open_ends:
            with self._connection.asking("read"):
                # `consume` waits until its batch is full, so the wait is for one and the rest is what is there.
                first = self._consumer.poll(_POLL_S)
                batch = [] if first is None else [first, *self._consumer.consume(_ROWS, 0)]
            rows = self._wanted(batch, open_ends)
            if rows:
                heard_s = self._clock.monotonic_s()
                yield rows
                # What the taker did in between is no silence of the log.
                heard_s = self._clock.monotonic_s()
            elif open_ends and self._clock.monotonic_s() - heard_s > self._patience_s:
                (topic, partition), end = next(iter(open_ends.items()))
                raise self._connection.unreachable("read", topic=topic, partition=partition, end=end)
        with self._connection.asking("unassign"):
            self._consumer.unassign()

    def close(self) -> None:
        """Give up the connections; may be called twice."""
        self._consumer.close()

    def _wanted(self, batch: Sequence[Any], open_ends: dict[Partition, int]) -> list[Any]:
        """The messages of `batch` below their slice's end; slices that are read through leave `open_ends`."""
        rows: list[Any] = []
        for message in batch:
            partition = (message.topic(), message.partition())
            end = open_ends.get(partition)
            if end is None:
                continue
            error = message.error()
            offset = message.offset()
            if error is None:
                if offset < end:
                    rows.append(message)
                if offset >= end - 1:
                    del open_ends[partition]
            elif error.code() == AT_END:
                # Below the slice's end this is a transaction whose marker is still on its way.
                if offset >= end:
                    del open_ends[partition]
            else:
                self._refuse(error, partition, end)
        return rows

    def _refuse(self, error: Any, at: Partition, end: int) -> None:
        if error.code() in NOT_HELD:
            raise Terminal(
                "the log does not hold this range any more (removed by retention, or the topic was made anew)",
                topic=at[0],
                partition=at[1],
                end=end,
                fix="Rebuild the copy from the beginning of the topic.",
            )
        ours = self._connection.error(error, "read", topic=at[0], partition=at[1], end=end)
        if not isinstance(ours, Transient):
            raise ours


_POOL: Final[dict[str, list[RangeConsumer]]] = defaultdict(list)


@contextlib.contextmanager
def cached_consumer(bootstrap: str, options: ClientOptions | None = None) -> Iterator[RangeConsumer]:
    """A consumer of this process; it goes back to the pool unless reading failed or was left half-way."""
    key = json.dumps([bootstrap, dict(options or {})], sort_keys=True)
    pool = _POOL[key]
    consumer = pool.pop() if pool else RangeConsumer(bootstrap, options)
    try:
        yield consumer
    except BaseException:
        consumer.close()
        raise
    pool.append(consumer)


def row_columns(messages: Sequence[Any], ids: Mapping[str, str], schema: Any) -> Any:
    """Messages as a pyarrow RecordBatch of `schema`: the columns of `batches_spark.ROW_SCHEMA` in order.

    `headers` is never null; a header's value may be, as may `key` and `value` (a tombstone).
    """
    import pyarrow

    pa: Any = pyarrow
    topics = [m.topic() for m in messages]
    names: list[str] = []
    values: list[bytes | None] = []
    bounds = [0]
    for message in messages:
        for name, value in message.headers() or ():
            names.append(name)
            values.append(value)
        bounds.append(len(names))
    kind = schema.field("headers").type
    pairs = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=list(kind.value_type)
    )
    columns = [
        pa.array(topics, pa.string()),
        pa.array([ids.get(topic, "") for topic in topics], pa.string()),
        pa.array([m.partition() for m in messages], pa.int32()),
        pa.array([m.offset() for m in messages], pa.int64()),
        pa.array([m.timestamp()[1] for m in messages], pa.int64()),
        pa.array([m.key() for m in messages], pa.binary()),
        pa.array([m.value() for m in messages], pa.binary()),
        pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pairs, type=kind),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def slice_columns(slices: Sequence[Slice], schema: Any) -> Any:
    """Slices as a pyarrow RecordBatch of `schema`, the columns of `include.log.running.batches_spark.SLICE_SCHEMA`."""
    import pyarrow

    pa: Any = pyarrow
    rows = [(s.topic, s.topic_id, s.partition, s.start, s.end) for s in slices]
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def slices_in(batches: Iterable[Any]) -> list[Slice]:
    """Inverse of `slice_columns`, over all of a task's pyarrow RecordBatches."""
    return [
        Slice(row["topic"], row["partition"], row["start"], row["end"], row["topic_id"])
        for batch in batches
        for row in batch.to_pylist()
    ]
