from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord
from include.lake.parsing.fields import WantedValue
from include.lake.parsing.readers.delimited_fields import delimited_reader
from include.lake.parsing.readers.regex_fields import check_pattern, regex_reader

CELLS = st.lists(
    st.text(st.characters(exclude_characters="\r\n\x00", codec="utf-8"), max_size=8), min_size=1, max_size=6
)


def columns(
    data: bytes, *fields: str | int, delimiter: str = ",", names: Any = (), quote: str | None = None
) -> list[Any]:
    return list(delimited_reader([WantedValue((field,)) for field in fields], delimiter, names, quote)(data))


def groups(data: bytes, pattern: str, *names: str, most: int = 1000) -> list[Any]:
    return list(regex_reader([WantedValue((name,)) for name in names], pattern, most)(data))


def test_columns_are_found_by_number_from_one_and_by_name() -> None:
    assert columns(b"a,b,c", 1, 3) == [b"a", b"c"]
    assert columns(b"a\tb\tc\r\n", "ts", 1, delimiter="\t", names=("id", "x", "ts")) == [b"c", b"a"]
    assert columns(b"a||b", 2, delimiter="||") == [b"b"]


def test_an_empty_column_is_no_value() -> None:
    assert columns(b"a,,c", 2) == [None]


@settings(max_examples=40)
@given(cells=CELLS)
def test_quoted_lines_are_split_as_they_were_written(cells: list[str]) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow(cells)
    expected = [cell.encode() or None for cell in cells]
    assert columns(out.getvalue().encode(), *range(1, len(cells) + 1), quote='"') == expected


def test_a_quoted_value_may_hold_delimiter_quote_and_line_end() -> None:
    assert columns(b'"a,""b""\nc",5', 1, 2, quote='"') == [b'a,"b"\nc', b"5"]


@pytest.mark.parametrize(
    ("data", "more"),
    [
        (b"a", {}),
        (b"", {}),
        (b"a,b,c,d", {"names": ("x", "y", "z")}),
        (b'"a,b', {"quote": '"'}),
        (b'"a"x,b', {"quote": '"'}),
        (b"a,b\nc,d", {"quote": '"'}),
        (b"\xff,b", {"quote": '"'}),
    ],
)
def test_lines_of_other_columns_are_refused(data: bytes, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord) as refused:
        columns(data, 2, **more)
    assert refused.value.details["reason"].startswith("columns")


@pytest.mark.parametrize("field", [0, -1, "ts", 99_999])
def test_a_field_that_is_no_column_is_refused_at_once(field: Any) -> None:
    with pytest.raises(ValueError, match="no column"):
        columns(b"a,b", field)


def test_groups_are_found_anywhere_and_in_any_bytes() -> None:
    pattern = r'^(?P<host>[^ ]++) .*?"ts":(?P<ts>[0-9]++)(?P<none>x)?'
    assert groups(b'\xffhost a b "ts":17 "ts":18', pattern, "ts", "host", "none") == [b"17", b"\xffhost", None]


def test_digits_and_words_are_ascii() -> None:
    with pytest.raises(InvalidRecord):
        groups("١٢".encode(), r"(?P<ts>\d+)", "ts")


def test_a_message_without_a_match_or_beyond_the_bound_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="does not match"):
        groups(b"x", r"(?P<ts>\d+)", "ts")
    assert groups(b"5" * 1000, r"(?P<ts>\d+)", "ts") == [b"5" * 1000]
    with pytest.raises(InvalidRecord, match="too long"):
        groups(b"5" * 1001, r"(?P<ts>\d+)", "ts")


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?P<a>(x+)+)y",
        r"^(?P<a>(?:x*)*)",
        r"^(?P<a>(?:x|y+)*)",
        r"^(?P<a>(?:ab|abc|c)*)d",
        r"^(?P<a>(?:x{1,2})*)y",
        r"^(?P<a>(?:x?y?){2,40})z",
        r"^(?P<a>(?:(?=x+)x)*)",
        r"^(?P<a>(?:x+?)+)",
        r"^(?P<a>(?>(?:x+)+))",
        r"^(?P<a>(?:(?:x+)+)++)",
        r"^(?P<a>x)(?(a)(?:y+)+|z)",
        r"^(?P<a>.*)b.*c.*d.*e",
        r"(?P<a>.*)b.*c",
        r"(?m)^(?P<a>.*)b.*c",
        r"(?P<a>x{0,900}y{0,900}z)",
    ],
)
def test_patterns_that_may_take_for_ever_are_refused(pattern: str) -> None:
    re.compile(pattern.encode())
    with pytest.raises(ValueError, match="for ever"):
        check_pattern(pattern, 8192)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?P<a>(?:x++,)*)",
        r"(?P<a>(?:(?>x+|y),)*+)",
        r"(?P<a>[0-9]+)",
        r"^(?P<a>.*)b[0-9]{3}(?:c|d|ef)?g*",
        r"^(?:[^ ]++ ){3}\[(?P<a>[^\]]++)\]",
        r"(?P<a>x)(?(a)y|z)",
        r"(?P<a>x)(?(a)y)(?!z)(?<=x)",
    ],
)
def test_patterns_with_few_ways_pass(pattern: str) -> None:
    assert check_pattern(pattern, 8192).groupindex == {"a": 1}


def test_a_shorter_bound_allows_more() -> None:
    pattern = r"^(?P<a>.*)b.*c.*d"
    assert check_pattern(pattern, 999)
    with pytest.raises(ValueError, match="1000 bytes"):
        check_pattern(pattern, 1000)


@pytest.mark.parametrize("pattern", ["(", "x", "(?L)(?P<a>x)", "(?P<a>x)" * 2, "(?P<a>(?P=b))", "(?u)(?P<a>x)"])
def test_what_is_no_pattern_with_groups_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"regular expression"):
        check_pattern(pattern, 100)


def test_a_field_that_is_no_group_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"has a$"):
        groups(b"", "(?P<a>x)", "b")
