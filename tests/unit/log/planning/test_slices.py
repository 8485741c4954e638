"""How a batch's ranges become tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from include.log.planning.slices import Slice, cut_evenly, row_columns, slices_of, spread, tasks_for

SLICES = st.lists(
    st.builds(
        lambda topic, p, start, size: Slice(topic, p, start, start + size),
        st.sampled_from("abc"),
        st.integers(0, 5),
        st.integers(0, 100),
        st.integers(1, 1000),
    ),
    max_size=20,
)


class Message:
    """What `row_columns` asks of a message of the Kafka client."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]] | None) -> None:
        self._parts = (key, value, headers)

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 1, 123

    def key(self) -> bytes | None:
        return self._parts[0]

    def value(self) -> bytes | None:
        return self._parts[1]

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self._parts[2]


def test_empty_ranges_are_no_slices() -> None:
    found = slices_of({("a", 0): 5, ("a", 1): 5}, {("a", 0): 5, ("a", 1): 6}, {"a": "id"})
    assert found == [Slice("a", 1, 5, 6, "id")]


def test_no_slices_are_no_tasks() -> None:
    assert spread([], 3) == []


@given(slices=SLICES, tasks=st.integers(1, 6))
def test_spreading_loses_no_slice_and_leaves_no_task_idle(slices: list[Slice], tasks: int) -> None:
    groups = spread(slices, tasks)
    assert sorted(s for group in groups for s in group) == sorted(slices)
    assert all(groups)
    assert len(groups) == min(tasks, len(slices))


@given(slices=SLICES, tasks=st.integers(1, 6))
def test_no_task_has_more_than_its_share_and_one_slice(slices: list[Slice], tasks: int) -> None:
    total = sum(s.size + 1 for s in slices)
    largest = max((s.size + 1 for s in slices), default=0)
    assert all(sum(s.size for s in group) <= total / tasks + largest for group in spread(slices, tasks))


def of_distinct_partitions(slices: list[Slice]) -> list[Slice]:
    return list({(each.topic, each.partition): each for each in slices}.values())


@given(sizes=st.lists(st.integers(1, 9_000), max_size=4), cores=st.integers(1, 64))
def test_small_batches_are_not_cut_into_tiny_tasks(sizes: list[int], cores: int) -> None:
    tasks = tasks_for([Slice("docs", p, 5, 5 + size) for p, size in enumerate(sizes)], cores)
    assert 1 <= tasks <= cores
    assert tasks == 1 or sum(sizes) >= 1_000 * tasks
    assert tasks == cores or sum(sizes) < 1_000 * (tasks + 1)


@given(slices=SLICES.map(of_distinct_partitions), tasks=st.integers(1, 6))
def test_cutting_evenly_covers_each_offset_once_and_a_partition_once_a_task(slices: list[Slice], tasks: int) -> None:
    groups = cut_evenly(slices, tasks)
    offsets = [(s.topic, s.partition, n) for group in groups for s in group for n in range(s.start, s.end)]
    assert sorted(offsets) == sorted((s.topic, s.partition, n) for s in slices for n in range(s.start, s.end))
    assert len(groups) <= tasks
    for group in groups:
        assert len({(s.topic, s.partition) for s in group}) == len(group)
        assert sum(s.size for s in group) <= -(-sum(s.size for s in slices) // tasks)


def test_columns_keep_tombstones_empty_values_and_headers_apart() -> None:
    import pyarrow as pa

    kind = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp_ms", pa.int64()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", kind),
        ]
    )
    messages = [Message(b"k", None, None), Message(None, b"", [("v", b"1"), ("v", None)]), Message(b"", b"x", [])]
    batch = row_columns(messages, {"t": "id"}, schema)
    assert batch.column("key").to_pylist() == [b"k", None, b""]
    assert batch.column("value").to_pylist() == [None, b"", b"x"]
    assert batch.column("headers").to_pylist() == [[], [{"key": "v", "value": b"1"}, {"key": "v", "value": None}], []]
    assert batch.slice(0, 1).select(["topic", "topic_id", "partition", "offset", "timestamp_ms"]).to_pylist() == [
        {"topic": "t", "topic_id": "id", "partition": 3, "offset": 7, "timestamp_ms": 123}
    ]
