"""Binary JSON: recorded documents against the server's SELECT, made ones against their values, damaged ones refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.source.rows.json.binary import _NAMES, _ROOM, MOST_DEPTH, json_text
from tests.support.binlog.binary_json import Gap, Number, document
from tests.support.golden.recording import load

EDGES = [
    sign * (1 << bits) + more for bits in (7, 8, 15, 16, 31, 32, 53, 63) for sign in (1, -1) for more in (-1, 0, 1)
]
WHOLE = st.one_of(st.integers(-(1 << 63), (1 << 64) - 1), st.sampled_from([n for n in EDGES if n >= -(1 << 63)]))
DOUBLES = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**18), 10**18).map(float))
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=150), st.text('"\\/\b\f\n\r\t\0\x1f\x7f ü€𝄞')
)
SCALARS = st.one_of(st.none(), st.booleans(), WHOLE, TEXT)
VALUES = st.recursive(
    st.one_of(SCALARS, DOUBLES),
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(TEXT, inner, max_size=6)),
    max_leaves=30,
)


def shown(value: Any) -> Any:
    """The value with the keys of its objects in the server's order."""
    if isinstance(value, dict):
        ordered = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return {key: shown(value[key]) for key in ordered}
    return [shown(each) for each in value] if isinstance(value, list) else value


def text(value: Any, large: bool = False) -> str:
    return json_text(document(value, large)).decode()


def inserted(case: str) -> Iterator[tuple[int, bytes]]:
    """(id, binary document) of rows of (id int, j json, v varchar(10)) in a recording, all bitmaps of one byte."""
    data = load("mysql-9.7", case).data
    event = 4
    while event < len(data):
        size = int.from_bytes(data[event + 9 : event + 13], "little")
        body = data[event + 19 : event + size - 4]
        if data[event + 4] == 30 and body[10] == 3:
            at = 12
            while at < len(body):
                nulls, number = body[at], int.from_bytes(body[at + 1 : at + 5], "little")
                at += 5
                if not nulls & 2:
                    length = int.from_bytes(body[at : at + 4], "little")
                    yield number, body[at + 4 : at + 4 + length]
                    at += 4 + length
                at += 1 + body[at]
        event += size


@pytest.mark.parametrize("case", ["json-scalars", "json-opaque", "json-containers", "json-large"])
def test_recorded_documents_read_as_select_showed_them(case: str) -> None:
    recording = load("mysql-9.7", case)
    selected: dict[int, bytes | None] = {}
    for after in range(len(recording.statements)):
        for row in recording.rows(after).get(("golden", "t"), []):
            assert row[0] is not None
            selected.setdefault(int(row[0]), row[1])
    found = {number: json_text(data) for number, data in inserted(case)}
    assert found
    assert found == {number: each for number, each in selected.items() if each is not None}


@given(VALUES, st.booleans())
def test_a_document_reads_as_its_value_with_keys_in_order(value: Any, large: bool) -> None:
    found = json.loads(text(value, large))
    assert found == value
    assert json.dumps(found) == json.dumps(shown(value))


@given(
    st.recursive(
        SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(TEXT, inner, max_size=6))
    ),
    st.booleans(),
)
def test_separators_and_escapes_are_those_of_json_dumps(value: Any, large: bool) -> None:
    assert text(value, large) == json.dumps(shown(value), ensure_ascii=False)


@given(st.sampled_from(range(5, 11)), st.data(), st.booleans())
def test_integers_of_every_size_read_alone_and_among_others(kind: int, data: st.DataObject, large: bool) -> None:
    bits, least = {5: (16, -1), 6: (16, 0), 7: (32, -1), 8: (32, 0), 9: (64, -1), 10: (64, 0)}[kind]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if least else (0, (1 << bits) - 1)
    value = data.draw(st.one_of(st.integers(low, high), st.sampled_from([low, high])))
    assert text(Number(kind, value)) == str(value)
    assert text(["a", Number(kind, value), {"k": Number(kind, value)}], large) == f'["a", {value}, {{"k": {value}}}]'


def test_what_stands_beside_a_narrow_value_in_a_wide_entry_says_nothing() -> None:
    data = bytearray(document([-1, 1, True], large=True))
    assert json_text(bytes(data)) == b"[-1, 1, true]"
    data[12:14] = b"\0\0"
    data[17:19] = b"\x55\x66"
    data[21:24] = b"\x55\x66\x77"
    assert json_text(bytes(data)) == b"[-1, 1, true]"


def test_no_bytes_are_the_null_of_json() -> None:
    assert json_text(b"") == b"null"


@pytest.mark.parametrize("size", [0, 127, 128, 16383, 16384, 70_000])
def test_strings_of_every_length_of_length_read(size: int) -> None:
    assert text("x" * size) == f'"{"x" * size}"'
    assert text({"s": ["x" * size, 70_000]}) == f'{{"s": ["{"x" * size}", 70000]}}'


def test_a_container_just_beyond_two_bytes_is_large_and_reads_the_same() -> None:
    fitting, beyond = ["x" * (65_535 - 13), 1], ["x" * (65_535 - 12), 1]
    assert (document(fitting)[0], document(beyond)[0]) == (2, 3)
    assert json.loads(text(fitting)) == fitting
    assert json.loads(text(beyond)) == beyond


def test_many_members_read_in_their_order() -> None:
    value = {str(number): number for number in range(3000)}
    assert text(value) == json.dumps(value)
    assert text(list(range(70_000))) == json.dumps(list(range(70_000)))


def test_room_that_updates_in_place_have_left_is_passed_over() -> None:
    assert text(["a", Gap(3, "b"), 5, Gap(1, [1])]) == '["a", "b", 5, [1]]'
    removed = bytearray(document({"a": "x", "b": "y", "c": "z"}))
    # As `remove_in_shadow` takes out "b": entries move to the left, the count sinks, all else stays.
    entries = removed[5:26]
    removed[5:26] = entries[0:4] + entries[8:12] + entries[12:15] + entries[18:21] + entries[14:21]
    removed[1] = 2
    assert json_text(bytes(removed)) == b'{"a": "x", "c": "z"}'


def test_keys_are_remembered_within_bounds() -> None:
    few = _NAMES[0]._known
    many = {f"key {number}": number for number in range(4200)}
    assert text(many) == json.dumps(shown(many))
    assert document(many)[0] == 0
    assert document(many)[5 : 5 + 4 * len(many)] not in few
    for number in range(6000):
        value = {f"{number:050}": 1, "ü" * (number % 50): 2}
        assert text(value) == json.dumps(shown(value), ensure_ascii=False)
    assert sum(len(keys) for _, _, texts in few.values() for keys in texts) <= _ROOM


@pytest.mark.parametrize("large", [False, True])
def test_containers_nest_as_deep_as_the_server_lets_them(large: bool) -> None:
    value: Any = []
    for _ in range(MOST_DEPTH - 1):
        value = [value]
    assert text(value, large) == "[" * MOST_DEPTH + "]" * MOST_DEPTH
    with pytest.raises(ValueError, match="deeper"):
        text([value], large)


def test_one_value_named_twice_is_refused_before_it_doubles_at_each_depth() -> None:
    data = document("x")[1:]
    kind = 12
    for _ in range(60):
        head = struct.pack("<HH", 2, 10 + len(data)) + struct.pack("<BHBH", kind, 10, kind, 10)
        kind, data = 2, head + data
    with pytest.raises(ValueError, match="lies over"):
        json_text(bytes((kind,)) + data)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"\x0d", "type 13"),
        (b"\x04\x03", "literal that is none"),
        (b"\x04", "cut short"),
        (b"\x05\x01", "does not end within"),
        (b"\x0c", "cut short"),
        (b"\x0c\x05abc", "does not end within"),
        (b"\x0c\xff\xff\xff\xff\xff\x0f", "5 bytes"),
        (b"\x0c\x01\xff", "utf-8"),
        (b"\x0c\x03\xed\xa0\x80", "utf-8"),
        (b"\x0c\x01ab", "does not end with its 4 bytes"),
        (b"\x0f", "cut short"),
        (b"\x02\x00\x00", "cut short"),
        (b"\x02\x00\x00\x05\x00", "does not fit into the"),
        (b"\x02\xff\xff\x04\x00", "does not fit into the"),
        (b"\x02\x01\x00\x07\x00\x0c\x00\x00", "lies over"),
        (b"\x02\x01\x00\x08\x00\x0c\x07\x00\x01a", "does not end within"),
        (b"\x02\x01\x00\x08\x00\x0c\xff\x00\x00", "cut short"),
        (b"\x02\x01\x00\x07\x00\x04\x07\x00", "literal that is none"),
        (b"\x00\x01\x00\x0c\x00\x0a\x00\x01\x00\x04\x00\x00a", "a key of"),
        (b"\x00\x01\x00\x0c\x00\x0b\x00\x02\x00\x04\x00\x00a", "the keys of"),
        (document({"aa": 1, "bb": 2}).replace(b"aabb", b"bbaa"), "a key of a JSON object does not follow"),
        (document({"aa": 1, "bb": 2}).replace(b"aabb", b"aaaa"), "a key of a JSON object does not follow"),
        (document({"aa": 1}).replace(b"aa", b"a\xff"), "utf-8"),
    ],
)
def test_bytes_that_no_server_writes_are_refused_by_name(data: bytes, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        json_text(data)


@settings(max_examples=120)
@given(VALUES, st.booleans(), st.data())
def test_a_damaged_document_is_refused_or_reads_as_another_no_longer_than_its_bytes_allow(
    value: Any, large: bool, data: st.DataObject
) -> None:
    damaged = bytearray(document(value, large))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged)))
        change = data.draw(st.binary(min_size=1, max_size=4))
        match data.draw(st.sampled_from(["over", "in", "cut", "end"])):
            case "over":
                damaged[place : place + len(change)] = change
            case "in":
                damaged[place:place] = change
            case "cut":
                del damaged[place : place + len(change)]
            case _:
                del damaged[place:]
    try:
        found = json_text(bytes(damaged))
    except ValueError:
        return
    json.loads(found)
    assert len(found) <= 8 * len(damaged) + 8


@settings(max_examples=120)
@given(st.binary(max_size=60), st.sampled_from(range(16)))
def test_any_bytes_are_refused_or_read_as_json(data: bytes, kind: int) -> None:
    try:
        found = json_text(bytes((kind,)) + data)
    except ValueError:
        return
    json.loads(found)
