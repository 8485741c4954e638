"""A document's state as numbers that an index adds up."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from include.index.digest import BUCKET_BITS, VIEWS, bucket, limbs, of_limbs, state_hash
from include.record.json.body import canonical

STATES = st.integers(0, 2**64 - 1)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.lists(STATES, max_size=50))
def test_sums_of_limbs_give_the_sum_of_the_states(states: list[int]) -> None:
    pairs = [limbs(state) for state in states]
    assert of_limbs(sum(low for low, _ in pairs), sum(high for _, high in pairs)) == sum(states)
    assert all(0 <= part < 2**32 for pair in pairs for part in pair)


@given(STATES)
def test_a_bucket_has_so_many_bits_and_views_are_apart(state: int) -> None:
    found = [bucket(state, view) for view in range(len(VIEWS))]
    assert all(0 <= each < 1 << BUCKET_BITS for each in found)


def test_views_spread_the_same_states_differently() -> None:
    together = sum(bucket(state, 0) == bucket(state, 1) for state in range(10_000))
    assert together < 10
    assert len({bucket(state, 0) >> 10 for state in range(100_000)}) > 16_000


def test_each_part_of_a_state_counts() -> None:
    states = {
        state_hash("1", 1, b"{}"),
        state_hash("1", 2, b"{}"),
        state_hash("2", 1, b"{}"),
        state_hash("1", 1, b'{"a":1}'),
        state_hash("", 1, b"1{}"),
    }
    assert len(states) == 5


@given(JSON)
def test_canonical_text_stays_itself_when_it_is_read_back(value: object) -> None:
    text = canonical(value)
    assert canonical(orjson.loads(text)) == text


def test_the_order_of_names_does_not_count() -> None:
    assert canonical({"b": 1, "a": [{"d": 1.0, "c": None}]}) == canonical({"a": [{"c": None, "d": 1.0}], "b": 1})
