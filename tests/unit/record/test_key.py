"""Keys: the Java client's partitions, document ids, ids of records without a key."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.record.key import _murmur2, doc_id, murmur2, partition_of, pseudo_key

# The signs that a careless join of two fields would mix up.
pairs = st.tuples(*[st.text('[]",\\ ä1', max_size=5)] * 2)


@pytest.mark.parametrize(
    ("text", "signed"),
    [
        # From Kafka's own tests: org.apache.kafka.common.utils.UtilsTest.testMurmur2.
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_is_that_of_the_java_client(text: str, signed: int) -> None:
    assert murmur2(text.encode()) == signed & 0xFFFFFFFF


@given(st.binary(max_size=80))
def test_the_compiled_murmur2_is_the_plain_one(data: bytes) -> None:
    assert murmur2(data) == _murmur2(data)


@given(st.binary(max_size=40), st.integers(1, 100))
def test_a_key_has_one_partition_that_exists(key: bytes, partitions: int) -> None:
    found = partition_of(key, partitions)
    assert 0 <= found < partitions
    assert partition_of(key, partitions) == found


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ({"id": 17}, "17"),
        ({"id": "ä b"}, "ä b"),
        ({"flag": True}, "true"),
        ({"id": Decimal("1E+2")}, "100"),
        ({"id": b"\x00\xff"}, "00ff"),
        ({"a": 1, "b": "x"}, '[1,"x"]'),
        ({"b": "x", "a": 1}, '["x",1]'),
        ({"a": None, "b": Decimal("1.50")}, '[null,"1.50"]'),
        ({"a": "ä", "b": b"\x01"}, '["ä","01"]'),
    ],
)
def test_a_document_id_is_the_key_as_text(key: dict[str, object], text: str) -> None:
    assert doc_id(key) == text


def test_an_id_that_is_too_long_or_empty_becomes_a_hash() -> None:
    assert doc_id({"id": "x" * 512}) == "x" * 512
    # 257 letters, but 514 bytes.
    assert doc_id({"id": "ä" * 257}).startswith("sha256:")
    assert len(doc_id({"id": "x" * 513})) == 71
    assert doc_id({"id": ""}).startswith("sha256:")


@given(pairs, pairs)
def test_keys_of_several_fields_that_differ_have_ids_that_differ(a: tuple[str, str], b: tuple[str, str]) -> None:
    assert (doc_id({"x": a[0], "y": a[1]}) == doc_id({"x": b[0], "y": b[1]})) == (a == b)


def test_a_record_without_a_key_is_known_by_its_place() -> None:
    found = pseudo_key("local", "one", "t", 0, 1)
    assert len(found) == 32
    assert found == pseudo_key("local", "one", "t", 0, 1)
    assert len({found, pseudo_key("localo", "ne", "t", 0, 1), pseudo_key("local", "one", "t", 1, 1)}) == 3
