"""A long batch in parts: whatever the sizes, each offset is in one part, in the order of the log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from include.index.batch_split import PartSize, parts_of
from include.log.planning.plan import BatchPlan

PLACES = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(0, 3)), st.tuples(st.integers(0, 50), st.integers(0, 4000)), max_size=6
)


@given(PLACES, st.integers(1, 3000), st.lists(st.floats(0, 1000), min_size=1, max_size=20))
def test_every_offset_is_in_one_part_whatever_the_parts_take(
    places: dict[tuple[str, int], tuple[int, int]], most: int, seconds: list[float]
) -> None:
    ends = {at: start + length for at, (start, length) in places.items()}
    batch = BatchPlan({at: start for at, (start, _) in places.items()}, ends, {"a": "id-a"})
    size, done = PartSize(most), {at: start for at, (start, _) in places.items()}
    for number, part in enumerate(parts_of(batch, size)):
        offsets = sum(each.size for each in part)
        # One offset of each partition at least, so that none stands still.
        assert offsets <= max(size.offsets, len(part)) + len(part)
        for each in part:
            assert each.topic_id == ("id-a" if each.topic == "a" else "")
            assert each.start == done[each.topic, each.partition] < each.end
            done[each.topic, each.partition] = each.end
        size.took(offsets, seconds[number % len(seconds)])
        assert 1 <= size.offsets <= most
    assert done == ends


def test_parts_grow_while_they_are_quick_and_shrink_at_once_when_they_take_long() -> None:
    size = PartSize()
    seen = [size.offsets]
    for _ in range(4):
        size.took(size.offsets, size.offsets / 10_000)
        seen.append(size.offsets)
    assert seen == [5_000, 20_000, 80_000, 100_000, 100_000]
    size.took(100_000, 1_000)
    assert size.offsets == 1_500
    size.took(1_500, 500)
    assert size.offsets == 500
    size.took(80, 0.2)
    assert size.offsets == 500
