"""Two sides of a table that changes all the time: what is wrong is found, and nothing else ever is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.audit.merkle.compare import compared
from include.audit.merkle.moments import Moments
from include.audit.merkle.sides import AsOfRange
from include.errors import Terminal
from include.record.gtid import MysqlGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.record.schema import Column
from include.source.hashes.columns import ComparedColumn
from include.source.hashes.scan import ScannedRange
from include.source.hashes.sums import HashSum, leaf_of
from include.source.state.key_range import KeyRange
from tests.support.tables.sides_in_memory import History, Now, Then, at, hashed

pytestmark = pytest.mark.unit

PARTS = (KeyRange(None, ("3",)), KeyRange(("3",), ("6",)), KeyRange(("6",), None))
BITS = 2
COLUMNS = (ComparedColumn(Column("v", "int"), "number"),)
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


keys = st.sampled_from("123456789")
values = st.none() | st.sampled_from("abc")
histories = st.lists(st.tuples(keys, values), max_size=40)


@st.composite
def moments(draw: st.DrawFn, length: int) -> list[tuple[int, int, int]]:
    """Spans in their order; what one shows lies within it."""
    found, low = [], draw(st.integers(0, length))
    for _ in range(draw(st.integers(3, 14))):
        high = draw(st.integers(low, length))
        found.append((low, draw(st.integers(low, high)), high))
        low = draw(st.integers(low, length))
    return found


@given(st.data(), histories)
def test_a_true_copy_never_differs_whatever_a_span_shows(
    data: st.DataObject, changes: list[tuple[str, str | None]]
) -> None:
    history = History(changes)
    found = compared(Now(history, data.draw(moments(len(changes)))), Then(history), PARTS, BITS, COLUMNS)
    assert not found.found
    assert not found.unsure
    assert (found.left_out, found.unexplained) == (0, 0)


@given(st.data(), histories, st.dictionaries(keys, values, min_size=1, max_size=4))
def test_what_is_wrong_for_good_is_found_with_its_kind(
    data: st.DataObject, changes: list[tuple[str, str | None]], wrong: dict[str, str | None]
) -> None:
    history, copy = History(changes), History(changes, wrong)
    # Nobody writes any more, so that the wrong rows are what they are at every moment.
    end = len(changes)
    leading = Now(history, data.draw(st.lists(st.just((end, end, end)), max_size=9)))
    found = compared(leading, Then(copy), PARTS, BITS, COLUMNS)
    true = dict(changes)
    kinds = {each.key: each.kind for each in found.found}
    expected = {}
    for key, value in wrong.items():
        stands = true.get(key)
        if value != stands:
            known = value in [each for name, each in changes if name == key]
            both = "stale" if known else "altered"
            expected[key] = "missing" if value is None else "extra" if stands is None else both
    assert kinds == expected
    assert all(each.columns == (("v",) if each.kind in ("stale", "altered") else ()) for each in found.found)
    assert found.rows == sum(value is not None for value in true.values())


def test_a_row_that_never_keeps_still_is_said_to_be_unsure() -> None:
    changes: list[tuple[str, str | None]] = [("1", "ab"[n % 2]) for n in range(100)]
    # Each snapshot shows the change at its end, which the copy has not at its beginning.
    spans = [(n, n + 1, n + 1) for n in range(1, 99)]
    found = compared(Now(History(changes), spans), Then(History(changes)), PARTS, BITS, COLUMNS)
    assert not found.found
    assert found.unsure == {"1"}


class Twice(Then):
    """Has one key twice, as the sums know and a mapping of rows by key does not."""

    def leaves(self, asked: Sequence[AsOfRange], bits: int) -> list[ScannedRange]:
        found = super().leaves(asked, bits)
        leaf, one = leaf_of(b"5", bits), HashSum.of(hashed("5", "a"))
        return [
            ScannedRange(each.span, {**each.leaves, leaf: each.leaves[leaf].plus(one)})
            if part.rows == PARTS[1]
            else each
            for part, each in zip(asked, found, strict=True)
        ]


@pytest.mark.parametrize(("moments_", "unexplained"), [([], 1), ([(8, 9, 9)] * 99, 0)])
def test_leaves_that_differ_in_no_row_are_told_where_moments_are_exact(
    moments_: list[tuple[int, int, int]], unexplained: int
) -> None:
    history = History([(key, "a") for key in "123456789"])
    found = compared(Now(history, moments_), Twice(history), PARTS, BITS, COLUMNS)
    assert not found.found
    assert found.unexplained == unexplained


def test_a_table_that_is_wrong_all_over_is_not_fetched_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("include.audit.merkle.compare._MOST_LEAVES", 2)
    changes: list[tuple[str, str | None]] = [(key, "a") for key in "123456789"]
    copy = History(changes, dict.fromkeys("123456789", "b"))
    found = compared(Now(History(changes), []), Then(copy), PARTS, BITS, COLUMNS)
    assert found.differing > 2
    assert found.left_out == found.differing - 2
    assert 0 < len(found.found) < 9


def test_moments_are_told_apart_by_gtids_and_without_by_the_binlog() -> None:
    found = Moments([at(7), at(3), at(7), at(5)])
    assert len(found) == 3
    assert [found.place(at(n)) for n in (1, 3, 4, 5, 6, 7, 8)] == [0, 0, 1, 1, 2, 2, 3]
    assert [found.place_of(f"0-1-{n}", "bin.000001", 1) for n in (1, 3, 4, 7, 8)] == [0, 0, 1, 2, 3]
    assert found.place_of("5-1-1", "bin.000001", 1) == 3
    # Rows that a snapshot read name no transaction, and others none where there are no GTIDs.
    assert [found.place_of(None, "bin.000001", n) for n in (3, 4, 8)] == [0, 1, 3]
    plain = Moments([SourcePosition("mysql", MysqlGtidSet(), BinlogPosition(f"bin.00000{n}", 4), n) for n in (1, 2, 3)])
    assert [plain.place_of(f"bin.00000{n}:{pos}", f"bin.00000{n}", pos) for n, pos in ((1, 4), (1, 5), (3, 4))] == [
        0,
        1,
        2,
    ]


def test_servers_that_know_nothing_of_each_other_have_no_common_moments() -> None:
    one, other = (
        SourcePosition("mysql", MysqlGtidSet.parse(f"{UUID}:{span}"), BinlogPosition("b.000001", 4), 1)
        for span in ("1-5", "3-9")
    )
    with pytest.raises(Terminal, match="what the other lacks"):
        Moments([one, other])
