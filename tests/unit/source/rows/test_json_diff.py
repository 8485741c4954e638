"""Partial updates of JSON: recorded ones against the server's SELECT, made ones against plain lists and dicts."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.source.rows.json.binary import MOST_DEPTH, json_text
from include.source.rows.json.diff import apply_diffs
from tests.support.binlog.binary_json import document, lenenc, opaque_decimal, opaque_moment
from tests.support.golden.recording import load

REPLACE, INSERT, REMOVE = 0, 1, 2
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), KEYS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=20,
)
Leg = str | int


def diff(operation: int, path: bytes | str, value: Any = None) -> bytes:
    head = bytes((operation,)) + lenenc(path if isinstance(path, bytes) else path.encode())
    return head if operation == REMOVE else head + lenenc(document(value))


def changed(before: Any, *diffs: bytes) -> str:
    return apply_diffs(document(before), b"".join(diffs)).decode()


def shown(value: Any) -> Any:
    if isinstance(value, dict):
        ordered = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return {key: shown(value[key]) for key in ordered}
    return [shown(each) for each in value] if isinstance(value, list) else value


# The table of the recording: id int, a json, n int, b json, s varchar(20), c json. JSON columns are 1, 3 and 5.
_SIZES = (4, 0, 4, 0, 0, 0)
_Cells = list[bytes | None]


def absent_from(place: dict[str, Any]) -> Callable[[str], bool]:
    return lambda key: key not in place


def image(body: bytes, at: int) -> tuple[_Cells, int]:
    nulls, cells = body[at], _Cells()
    at += 1
    for i, size in enumerate(_SIZES):
        if nulls >> i & 1:
            cells.append(None)
            continue
        if i == 4:
            at, size = at + 1, body[at]
        elif not size:
            at, size = at + 4, int.from_bytes(body[at : at + 4], "little")
        cells.append(body[at : at + size])
        at += size
    return cells, at


def updates(data: bytes) -> Iterator[tuple[int, _Cells, _Cells, frozenset[int]]]:
    """(position, before, after, columns whose after cell is changes) of each row of PARTIAL_UPDATE_ROWS_EVENT."""
    event = 4
    while event < len(data):
        size = int.from_bytes(data[event + 9 : event + 13], "little")
        if data[event + 4] == 39:
            body = data[event + 19 : event + size - 4]
            assert body[10] == 6
            at = 13
            while at < len(body):
                before, at = image(body, at)
                assert body[at] in (0, 1)
                bits = body[at + 1] if body[at] else 0
                after, at = image(body, at + 1 + body[at])
                yield event, before, after, frozenset(i for n, i in enumerate((1, 3, 5)) if bits >> n & 1)
        event += size


def test_recorded_changes_give_what_select_showed_next() -> None:
    recording = load("mysql-9.7", "json-partial")
    applied = 0
    for position, before, after, partial in updates(recording.data):
        statement = next(n for n, each in enumerate(recording.statements) if each.end > position)
        rows = {row[0]: row for row in recording.rows(statement)["golden", "t"]}
        assert before[0] is not None
        row = rows[str(int.from_bytes(before[0], "little")).encode()]
        for i in (1, 3, 5):
            cell, old = after[i], before[i]
            if cell is None:
                assert row[i] is None
            elif i in partial:
                assert old is not None
                assert apply_diffs(old, cell) == row[i]
                applied += 1
            else:
                assert json_text(cell) == row[i]
    assert applied >= 8


@pytest.mark.parametrize(
    ("before", "diffs", "after"),
    [
        ({"a": 1}, [], '{"a": 1}'),
        ({"a": 1}, [diff(REPLACE, "$.a", [1, None])], '{"a": [1, null]}'),
        ({"a": 1}, [diff(INSERT, "$.b", True)], '{"a": 1, "b": true}'),
        ({"bb": 1, "a": 1}, [diff(INSERT, "$.b", 2), diff(INSERT, '$."aa"', 3)], '{"a": 1, "b": 2, "aa": 3, "bb": 1}'),
        ({"a": 1, "b": 2}, [diff(REMOVE, "$.a")], '{"b": 2}'),
        ({"a": 1}, [diff(REMOVE, "$.a"), diff(INSERT, "$.a", 2)], '{"a": 2}'),
        ({"a": {"b": [[], {"c": 1}]}}, [diff(REPLACE, "$.a.b[1].c", "x")], '{"a": {"b": [[], {"c": "x"}]}}'),
        ([1, 2], [diff(INSERT, "$[0]", 0)], "[0, 1, 2]"),
        ([1, 2], [diff(INSERT, "$[2]", 3)], "[1, 2, 3]"),
        ([1, 2], [diff(INSERT, "$[4294967295]", 3)], "[1, 2, 3]"),
        ([1, 2], [diff(INSERT, "$[last]", 3)], "[1, 3, 2]"),
        ([1, 2], [diff(INSERT, "$[last-2]", 3)], "[3, 1, 2]"),
        ([], [diff(INSERT, "$[last]", 3)], "[3]"),
        ([1, 2], [diff(REMOVE, "$[last-1]")], "[2]"),
        ([1, 2, 3], [diff(REMOVE, "$[0]"), diff(REMOVE, "$[0]")], "[3]"),
        ([[1]], [diff(INSERT, "$[0][1]", {"k": 1}), diff(INSERT, "$[0][1].z", 2)], '[[1, {"k": 1, "z": 2}]]'),
        ({"a": 1}, [diff(REPLACE, "$.a", "x" * 300)], '{"a": "' + "x" * 300 + '"}'),
        ({"ü€": 1, "$_9": 2}, [diff(REPLACE, "$.ü€", 3), diff(REMOVE, "$.$_9")], '{"ü€": 3}'),
        ({'a"\n.[0]': 1, "": 2}, [diff(REPLACE, '$."a\\"\\n.[0]"', 3), diff(REMOVE, '$.""')], '{"a\\"\\n.[0]": 3}'),
    ],
)
def test_changes_apply_as_the_server_applies_them(before: Any, diffs: list[bytes], after: str) -> None:
    assert changed(before, *diffs) == after


def test_numbers_and_other_types_that_no_change_touches_keep_their_text() -> None:
    before = [0, 1e15, 1.0, (1 << 64) - 1, opaque_decimal("1.50", 10), opaque_moment(10, 2026, 11, 21), -0.0, 5e-324]
    kept = '1e15, 1.0, 18446744073709551615, 1.50, "2026-11-21", -0.0, 5e-324'
    assert json_text(document(before)).decode() == f"[0, {kept}]"
    assert changed(before, diff(REPLACE, "$[0]", opaque_decimal("2.0", 2))) == f"[2.0, {kept}]"


@pytest.mark.parametrize(
    ("before", "given"),
    [
        ({"a": 1}, diff(REPLACE, "$.b", 1)),
        ({"a": 1}, diff(REMOVE, "$.b")),
        ({"a": 1}, diff(INSERT, "$.a", 1)),
        ({"a": 1}, diff(REPLACE, "$[0]", 1)),
        ({"a": 1}, diff(INSERT, "$[0]", 1)),
        ({"a": 1}, diff(REPLACE, "$.a[0]", 1)),
        ({"a": 1}, diff(INSERT, "$.a.b", 1)),
        ({"a": "text"}, diff(REPLACE, "$.a.t", 1)),
        ({"a": "text"}, diff(REMOVE, "$.a[0]")),
        ([1], diff(REPLACE, "$[1]", 1)),
        ([1], diff(REMOVE, "$[1]")),
        ([1], diff(REMOVE, "$[last-1]")),
        ([1], diff(REPLACE, "$.a", 1)),
        ([1], diff(INSERT, "$.a", 1)),
        ([1], diff(INSERT, "$[1].a", 1)),
        ([1], diff(REPLACE, "$", 1)),
        ([1], diff(REMOVE, "$")),
        (5, diff(INSERT, "$[1]", 1)),
    ],
)
def test_a_change_that_does_not_fit_is_refused(before: Any, given: bytes) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        changed(before, given)


@pytest.mark.parametrize(
    "given",
    [
        b"\x03\x03$.a\x02\x04\x00",
        b"\x00",
        b"\x00\x05$.a",
        b"\x00\xfb",
        b"\x00\xff",
        b"\x00\xfc\x01",
        b"\x00\xfe" + b"\xff" * 8,
        b"\x00\x03$.a",
        b"\x00\x03$.a\x02\x0d\x00",
        diff(REPLACE, "", 1),
        diff(REPLACE, ".a", 1),
        diff(REPLACE, "$a", 1),
        diff(REPLACE, "$.", 1),
        diff(REPLACE, "$.*", 1),
        diff(REPLACE, "$**.a", 1),
        diff(REPLACE, "$[*]", 1),
        diff(REPLACE, "$[0 to 1]", 1),
        diff(REPLACE, "$[-1]", 1),
        diff(REPLACE, "$[4294967296]", 1),
        diff(REPLACE, "$[" + "9" * 5000 + "]", 1),
        diff(REPLACE, "$.9a", 1),
        diff(REPLACE, '$."a', 1),
        diff(REPLACE, '$."\\x"', 1),
        diff(REPLACE, '$."\n"', 1),
        diff(REPLACE, b"$.\xff", 1),
        diff(REPLACE, b'$."\xff"', 1),
    ],
)
def test_bytes_that_are_no_change_are_refused(given: bytes) -> None:
    with pytest.raises(ValueError, match=r"change of JSON|path|cut short|type 13|Invalid|utf-8"):
        changed({"a": 1}, given)


def test_a_change_may_not_nest_deeper_than_the_server_does() -> None:
    value: Any = 1
    for _ in range(MOST_DEPTH - 1):
        value = [value]
    assert changed([0], diff(REPLACE, "$[0]", value)) == "[" * MOST_DEPTH + "1" + "]" * MOST_DEPTH
    with pytest.raises(ValueError, match="deeper"):
        changed([[0]], diff(REPLACE, "$[0][0]", value))


def places(value: Any, legs: tuple[Leg, ...] = ()) -> list[tuple[Leg, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [legs, *(place for key, each in inner for place in places(each, (*legs, key)))]


def path_of(legs: tuple[Leg, ...]) -> str:
    return "$" + "".join(f"[{leg}]" if isinstance(leg, int) else f".{json.dumps(leg)}" for leg in legs)


@given(VALUES, st.data())
def test_any_changes_do_to_a_document_what_they_do_to_lists_and_dicts(before: Any, data: st.DataObject) -> None:
    after, diffs = copy.deepcopy(before), b""
    for _ in range(data.draw(st.integers(0, 5))):
        legs = data.draw(st.sampled_from(places(after)))
        parent, place = after, after
        for leg in legs:
            parent, place = place, place[leg]
        choices = [REPLACE, REMOVE] if legs else []
        choices += [INSERT] if isinstance(place, (dict, list)) else []
        if not choices:
            continue
        operation, value = data.draw(st.sampled_from(choices)), data.draw(VALUES)
        if operation == REPLACE:
            parent[legs[-1]] = value
        elif operation == REMOVE:
            del parent[legs[-1]]
        elif isinstance(place, list):
            legs = (*legs, data.draw(st.integers(0, len(place) + 1)))
            place.insert(int(legs[-1]), value)
        else:
            legs = (*legs, data.draw(KEYS.filter(absent_from(place))))
            place[legs[-1]] = value
        diffs += diff(operation, path_of(legs), copy.deepcopy(value))
        after = copy.deepcopy(after)
    assert apply_diffs(document(before), diffs).decode() == json.dumps(shown(after), ensure_ascii=False)


@settings(max_examples=100)
@given(VALUES, st.data())
def test_damaged_changes_are_refused_or_give_json(value: Any, data: st.DataObject) -> None:
    damaged = bytearray(diff(REPLACE, "$.a.b[1]", value) + diff(INSERT, '$."c"', value) + diff(REMOVE, "$.a.b[last]"))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(damaged)))
        change = data.draw(st.binary(max_size=3))
        damaged[place : place + data.draw(st.integers(0, 3))] = change
    try:
        found = apply_diffs(document({"a": {"b": [1, 2]}}), bytes(damaged))
    except ValueError:
        return
    json.loads(found)
