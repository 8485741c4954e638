"""Positions in a binlog, of a source, in the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.record.gtid import Flavour, parse_gtid_set
from include.record.position import BinlogPosition, LogOffset, SourcePosition

places = st.tuples(st.integers(0, 2_000_000), st.integers(0, 1 << 40))


def at(place: tuple[int, int]) -> BinlogPosition:
    return BinlogPosition(f"db.bin.{place[0]:06d}", place[1])


@given(places, places)
def test_binlog_positions_are_ordered_by_file_number_then_byte(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert (at(a) < at(b), at(a) <= at(b), at(a) > at(b), at(a) >= at(b)) == (a < b, a <= b, a > b, a >= b)


def test_the_seven_digit_file_comes_after_the_last_of_six() -> None:
    assert BinlogPosition("bin.999999", 4) < BinlogPosition("bin.1000000", 4)


@given(places)
def test_a_binlog_position_reads_back_as_itself(place: tuple[int, int]) -> None:
    assert BinlogPosition.parse(str(at(place))) == at(place)


@pytest.mark.parametrize("text", ["", "bin.000001", "bin:4", "bin.x:4", "bin.000001:", "bin.000001:-4", "bin.000001:²"])
def test_what_is_no_binlog_position_is_refused(text: str) -> None:
    with pytest.raises(Terminal, match="not a binlog position"):
        BinlogPosition.parse(text)


def test_a_file_without_a_number_has_no_order() -> None:
    with pytest.raises(Terminal, match="no order"):
        assert BinlogPosition("binlog", 4) < BinlogPosition("bin.000001", 4)


@pytest.mark.parametrize(
    ("flavour", "gtids"), [("mariadb", "0-1-5"), ("mysql", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")]
)
def test_a_source_position_survives_json(flavour: Flavour, gtids: str) -> None:
    position = SourcePosition(
        flavour, parse_gtid_set(gtids, flavour), BinlogPosition("bin.000007", 99), 1_700_000_000_000_001
    )
    assert SourcePosition.from_json(position.to_json()) == position


def test_what_is_committed_is_the_next_offset() -> None:
    offset = LogOffset("t", 2, 41)
    assert offset.next_offset == 42
    assert str(offset) == "t/2@41"
    assert LogOffset("t", 2, 41) < LogOffset("t", 2, 100) < LogOffset("t", 10, 0)
