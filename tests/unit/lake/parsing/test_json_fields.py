from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord
from include.lake.parsing.fields import WantedValue
from include.lake.parsing.readers.json_fields import json_reader

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.characters(exclude_categories=["Cs"]))
)
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc1"), inner), max_leaves=12
)


def read(data: bytes, *paths: tuple[str | int, ...]) -> list[Any]:
    return list(json_reader([WantedValue(path) for path in paths])(data))


@settings(max_examples=40)
@given(
    document=st.dictionaries(st.sampled_from("abc1"), DOCUMENTS),
    path=st.lists(st.sampled_from(["a", "b", "c", "1", 0, 1]), min_size=1, max_size=4).map(tuple),
)
def test_a_path_leads_to_the_member_or_to_none(document: dict[str, Any], path: tuple[str | int, ...]) -> None:
    expected: Any = document
    for step in path:
        if isinstance(expected, dict):
            expected = expected.get(str(step))
        elif isinstance(expected, list) and isinstance(step, int):
            expected = expected[step] if step < len(expected) else None
        else:
            expected = None
    data = json.dumps(document).encode()
    assert read(data, path) == [expected]
    assert read(data, path, ("zz",)) == [expected, None]


def test_confluents_framing_is_passed_over() -> None:
    framed = json_reader([WantedValue(("ts",))], "confluent")
    assert list(framed(b'\0\0\0\0\7{"ts": 5}')) == [5]
    for data in (b'{"ts": 5}', b"\0\0", b"", b"\0\0\0\0\7"):
        with pytest.raises(InvalidRecord):
            framed(data)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", Decimal("1.5")),
        ("1700000000.123456789", Decimal("1700000000.123456789")),
        ("1699999199.99999999999999999", Decimal("1699999199.99999999999999999")),
        ("1e3", Decimal("1E+3")),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1700000000123", 1700000000123),
    ],
)
def test_a_number_is_what_its_digits_say(text: str, value: Any) -> None:
    assert read(b'{"ts": %b}' % text.encode(), ("ts",)) == [value]
    assert read(b'{"a": {"ts": %b}}' % text.encode(), ("a", "ts"), ("b",)) == [value, None]


def test_a_float_elsewhere_does_not_matter() -> None:
    assert read(b'{"ts": 5, "x": 1.5}', ("ts",)) == [5]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1]",
        b"5",
        b"null",
        b'"x"',
        b'{"a": 1} x',
        b'{"a": NaN}',
        b'{"a": "\xff"}',
        b"\x00",
        b'{"ts": 01}',
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
        b'{"ts": ' + b"9" * 5000 + b"}",
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecord) as refused:
        read(data, ("ts",))
    assert refused.value.details["reason"].startswith("JSON")
    assert "\n" not in str(refused.value)
