"""The compiled reader of binary JSON gives the text that the Python one gives, or leaves the document to it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.source.rows.json.binary import MOST_DEPTH, json_text
from tests.support.binlog.binary_json import Gap, document
from tests.unit.source.rows.test_json_binary import SCALARS, TEXT, VALUES, inserted

pytestmark = pytest.mark.compiled

PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(TEXT, inner, max_size=6)),
    max_leaves=30,
)


def native(data: bytes) -> bytes | None:
    from include.source.native._decoder import json_utf8

    return json_utf8(data)


@given(PLAIN, st.booleans())
def test_documents_of_texts_and_whole_numbers_are_read(value: Any, large: bool) -> None:
    data = document(value, large)
    assert native(data) == json_text(data)


@given(VALUES, st.booleans())
def test_documents_of_any_values_are_read_the_same_or_left(value: Any, large: bool) -> None:
    data = document(value, large)
    assert native(data) in (None, json_text(data))


@pytest.mark.parametrize("value", [0.0, -0.0, 0.1, -12.5, 1e3, 123456.789, 0.0001])
def test_plain_doubles_are_read(value: float) -> None:
    assert native(document([value])) == json_text(document([value]))


@pytest.mark.parametrize("value", [1e300, 1e-7, 1e16, 123456789012345678.0, float("nan"), float("-inf")])
def test_doubles_with_exponents_and_those_that_are_no_numbers_are_left(value: float) -> None:
    assert native(document([value])) is None


@settings(max_examples=400)
@given(VALUES, st.booleans(), st.integers(0, 2**32))
def test_damaged_documents_are_read_as_python_reads_them_or_left(value: Any, large: bool, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(document(value, large))
    for _ in range(chance.randint(1, 3)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    damaged = bytes(data[: chance.choice([len(data), chance.randint(0, len(data))])])
    found = native(damaged)
    if found is not None:
        assert found == json_text(damaged)


def test_what_servers_wrote_is_read_the_same_or_left() -> None:
    taken = 0
    for case in ("json-scalars", "json-opaque", "json-containers", "json-large"):
        for _, data in inserted(case):
            found = native(data)
            taken += found is not None
            assert found in (None, json_text(data))
    assert taken > 10


def test_documents_as_deep_as_a_server_stores_them_are_read_and_deeper_ones_left() -> None:
    value: Any = []
    for _ in range(MOST_DEPTH - 1):
        value = [value]
    assert native(document(value)) == json_text(document(value))
    assert native(document([value])) is None


def test_gaps_no_bytes_and_large_documents() -> None:
    assert native(b"") == b"null"
    assert native(document("x" * 70_000)) is None
    assert native(document("\0" * 60_000)) == json_text(document("\0" * 60_000))
    data = document({"a": Gap(3, "x"), "b": [1, Gap(2, {"c": "y"})]})
    assert native(data) == json_text(data)
