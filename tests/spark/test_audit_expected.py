"""The expected side of a search audit on Spark is the one of one process; its keys stay there, sorted by rank."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterator
from typing import Any

import pyarrow
import pytest
from pyspark.sql import SparkSession

from include.audit.search import expected_spark as stream
from include.audit.search.bisect import bisect
from include.audit.search.bounds import AuditBounds, PartitionShare
from include.audit.search.expected import ExpectedKind, FoldedExpected, RecordState, fold, reading_of, records_below
from include.audit.search.expected_spark import NEWEST_SCHEMA, SparkExpected
from include.audit.search.views import key_ranks_spark as ranks
from include.audit.search.views.key_list import ListedKeys
from include.audit.search.views.key_ranks_spark import SparkKeys
from include.index.definition import IndexTopic
from include.index.digest import bucket, limbs, of_limbs, state_hash
from include.index.feed import Feed
from include.index.metadata import TopicOrigin
from include.index.progress.document import IndexProgress
from include.index.states import States, feed_of
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.planning.slices import Slice
from include.log.ports import Record
from include.settings.connections import Cluster, Registry
from tests.support.documents.topic import DocumentTopic, one_topic
from tests.support.search.listed_view import ListedView

FEED = Feed(TopicOrigin("c", "t", "docs", 1), IndexTopic(entity="order"))
KEYS = sorted({*(f"{n:05}" for n in range(3_000)), "", "Z", "a", "ü", "\ufffd", "\U0001f600", "a\0", "'; --"})


def made(count: int) -> list[RecordState]:
    """Every kind, several records of a key, and versions up to the greatest that there is."""
    chance = random.Random(3)
    living: list[ExpectedKind] = ["living"]
    kinds: list[ExpectedKind] = [*living * 8, "deleted", "spoilt"]
    out = []
    for n in range(count):
        doc_id, version = f"k{chance.randrange(count // 2)}", (1 << 53) - count + n
        kind = chance.choice(kinds)
        state = state_hash(doc_id, version, b"{}") if kind == "living" else 0
        out.append(RecordState(doc_id, version, n % 3, n, kind, state))
    return out


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> tuple[FoldedExpected, SparkExpected]:
    folded, newest = FoldedExpected(), {}
    for record in made(2_000):
        folded.add(record)
        newest[record.doc_id] = record
    rows: list[tuple[Any, ...]] = [
        (r.doc_id, 1, r.version, r.offset, r.partition, r.kind, *limbs(r.state), bucket(r.state, 0), bucket(r.state, 1))
        for r in newest.values()
    ]
    rows.append((None, 7, *[None] * 8))
    return folded, SparkExpected(
        spark, spark.createDataFrame(rows, NEWEST_SCHEMA), FEED, {0: 2_000, 1: 2_000, 2: 2_000}
    )


def test_sums_and_documents_are_those_of_one_process(sides: tuple[FoldedExpected, SparkExpected]) -> None:
    folded, by_spark = sides
    assert (by_spark.living, by_spark.unreadable) == (folded.living, 7)
    assert by_spark.histograms(4) == folded.histograms(4)
    ids = [f"k{n}" for n in range(0, 900, 7)] + ["nobody"]
    assert by_spark.of(ids) == folded.of(ids)
    states = [record.state for record in folded.of(ids).values() if record.kind == "living"]
    assert {r.doc_id for r in by_spark.find([*states, 1])} == {r.doc_id for r in folded.find(states)}
    assert {r.doc_id for r in by_spark.in_buckets(4, [2, 5])} == {r.doc_id for r in folded.in_buckets(4, [2, 5])}
    assert {r.doc_id for r in by_spark.spoilt()} == {r.doc_id for r in folded.spoilt()}
    assert (by_spark.find([]), by_spark.of([])) == ([], {})


def test_keys_from_low_watermarks_on_are_those_of_one_process(sides: tuple[FoldedExpected, SparkExpected]) -> None:
    folded, by_spark = sides
    lows = {0: 1_500, 1: 1_900}
    want, have = folded.keys(lows), by_spark.keys(lows)
    assert len(have) == len(want) > 100
    assert have.spans([(0, len(have))]) == want.spans([(0, len(want))])


def test_what_the_log_has_let_go_is_left_out_as_by_one_process(sides: tuple[FoldedExpected, SparkExpected]) -> None:
    folded, by_spark = sides
    bounds = AuditBounds({0: 2_000, 1: 2_000, 2: 2_000}).held_from({0: 1_500, 1: 0, 2: 1_900})
    try:
        for side in sides:
            side.narrow(bounds)
        assert 0 < by_spark.living == folded.living < 800
        assert by_spark.histograms(4) == folded.histograms(4)
        assert sorted(by_spark.deleted()) == sorted(folded.deleted())
        assert {r.doc_id for r in by_spark.spoilt()} == {r.doc_id for r in folded.spoilt()}
        want, have = folded.keys(), by_spark.keys()
        assert have.spans([(0, len(have))]) == want.spans([(0, len(want))])
    finally:
        for side in sides:
            side.narrow(AuditBounds({}))


@pytest.mark.parametrize(
    "part",
    [PartitionShare(frozenset({1})), PartitionShare(frozenset({1}), inside=False), PartitionShare(frozenset(), False)],
)
def test_a_part_is_that_of_one_process(sides: tuple[FoldedExpected, SparkExpected], part: PartitionShare) -> None:
    folded, by_spark = sides
    try:
        for side in sides:
            side.narrow(AuditBounds({0: 2_000, 1: 2_000, 2: 2_000}, part=part))
        assert 0 < by_spark.living == folded.living
        assert by_spark.histograms(4) == folded.histograms(4)
        assert sorted(by_spark.deleted()) == sorted(folded.deleted())
        want, have = folded.keys(), by_spark.keys()
        assert have.spans([(0, len(have))]) == want.spans([(0, len(want))])
    finally:
        for side in sides:
            side.narrow(AuditBounds({}))


def test_what_was_folded_is_read_on_from_below_the_same_partitions_alone(
    sides: tuple[FoldedExpected, SparkExpected],
) -> None:
    _, by_spark = sides
    assert by_spark.is_below({0: 2_000, 1: 2_500, 2: 2_000})
    assert not by_spark.is_below({0: 2_000, 1: 1_999, 2: 2_000})
    assert not by_spark.is_below({0: 2_000, 1: 2_000, 2: 2_000, 3: 0})


@pytest.fixture(scope="module")
def keys(spark: SparkSession) -> SparkKeys:
    shuffled = list(KEYS)
    random.Random(5).shuffle(shuffled)
    spark.conf.set("spark.sql.shuffle.partitions", 5)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 70)
    return SparkKeys(spark.createDataFrame([(key,) for key in shuffled], "doc_id string").repartition(7))


def test_ranks_are_those_of_the_sorted_list_in_the_order_of_utf_8(keys: SparkKeys) -> None:
    listed = ListedKeys(KEYS)
    assert len(keys) == len(listed)
    ranks = [0, 1, 700, 1_501, len(KEYS) - 1]
    assert keys.at(ranks) == listed.at(ranks)
    bounds = [(0, 3), (10, 10), (500, 1_600), (len(KEYS) - 2, len(KEYS))]
    assert [list(span) for span in keys.spans(bounds)] == [list(span) for span in listed.spans(bounds)]
    assert keys.at([]) == []


def test_a_task_gives_the_keys_of_the_ranks_that_are_asked_for_whatever_its_batches_are() -> None:
    chance = random.Random(7)
    for _ in range(300):
        first, size = chance.randrange(50), chance.randrange(60)
        cuts = sorted({0, size, *(chance.randrange(size + 1) for _ in range(chance.randrange(5)))})
        batches = [
            pyarrow.RecordBatch.from_pydict({"doc_id": pyarrow.array([f"k{first + n}" for n in range(*cut)], "string")})
            for cut in itertools.pairwise(cuts)
        ]
        marks = sorted(chance.sample(range(130), 2 * chance.randrange(1, 9)))
        # Next to each other, apart, within a batch, over several of them, beyond the partition on either side.
        bounds = (
            list(itertools.pairwise(marks))
            if chance.random() < 0.5
            else list(zip(marks[::2], marks[1::2], strict=True))
        )
        rows = [tuple(row.values()) for out in ranks._ranked({0: first}, bounds, batches) for row in out.to_pylist()]
        within = range(first, first + size)
        assert rows == [(low, rank, f"k{rank}") for low, end in bounds for rank in range(low, end) if rank in within]


class Message:
    """A record as Kafka's client hands it out."""

    def __init__(self, record: Record) -> None:
        self.topic, self.partition, self.offset = (lambda: record.topic), (lambda: record.partition), self._offset
        self.key, self.value, self.headers = (lambda: record.key), (lambda: record.value), (lambda: [*record.headers])
        self._record = record

    def _offset(self) -> int:
        return self._record.offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._record.timestamp_ms


def test_a_task_makes_of_its_slices_what_one_process_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    log, registry = MemoryLog(), MemoryRegistry()
    topic = DocumentTopic("docs", log.admin(), log.writer("w"), registry)
    topic.write([(n, {"state": "completed"}) for n in range(1, 30)])
    topic.delete(4)
    topic.spoil(5, b"\x01")
    topic.spoil(6, b"\x01", versioned=False)
    reader = log.reader()
    ends = reader.end_offsets("docs")

    class Consumer:
        def read(self, slices: list[Slice]) -> Iterator[list[Message]]:
            for each in slices:
                yield [Message(r) for r in reader.read(each.topic, each.partition, each.start, each.end)]

    monkeypatch.setattr(stream, "cached_consumer", lambda *_: contextlib.nullcontext(Consumer()))
    monkeypatch.setattr(stream, "ConfluentRegistry", lambda _: registry)
    monkeypatch.setattr(stream, "_ROWS", 7)
    definition = one_topic("docs")
    feed = feed_of(Cluster(name="c", type="t"), definition, "docs", IndexProgress("docs"))
    plan = stream.StatesPlan(feed, "nowhere:9092", {}, Registry(url="http://nowhere"))
    slices = [{"topic": "docs", "topic_id": "", "partition": p, "start": 0, "end": end} for p, end in ends.items()]
    batch = pyarrow.RecordBatch.from_pylist(slices)
    rows = [row for found in stream.states(plan, [batch]) for row in found.to_pylist()]
    folded = fold(records_below(reader, "docs", ends), reading_of(States(feed, registry)))
    states = [
        RecordState(
            row["doc_id"], row["version"], row["partition"], row["offset"], row["kind"], of_limbs(row["d0"], row["d1"])
        )
        for row in rows
        if row["doc_id"] is not None
    ]
    again = FoldedExpected()
    for state in states:
        again.add(state)
    ids = [str(n) for n in range(1, 31)]
    assert again.of(ids) == folded.of(ids)
    assert len(rows) - len(states) == folded.unreadable == 1
    assert all(row["s1"] == bucket(of_limbs(row["d0"], row["d1"]), 1) for row in rows if row["kind"] == "living")
    assert list(stream.states(plan, [])) == []


def test_a_walk_over_ranks_finds_what_one_over_a_list_finds(keys: SparkKeys) -> None:
    gone = {KEYS[5], KEYS[6], KEYS[1_500], KEYS[-1]}
    found = bisect(keys, ListedView(set(KEYS) - gone), leaf=20)
    assert found.missing == sorted(gone)
    assert found.one_by_one == bisect(ListedKeys(KEYS), ListedView(set(KEYS) - gone), leaf=20).one_by_one
