"""GTID sets: an algebra of sets, checked against Python's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.record.gtid import MariadbGtidSet, MysqlGtidSet, parse_gtid_set

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
SOURCES = (UUID, OTHER, f"{UUID}:tag", f"{UUID}:_t2")
Pairs = set[tuple[str, int]]

pairs = st.sets(st.tuples(st.sampled_from(SOURCES), st.integers(1, 12)), max_size=30)
positions = st.dictionaries(st.integers(0, 4), st.tuples(st.integers(1, 3), st.integers(1, 50)), max_size=4)


def mysql(found: Pairs) -> MysqlGtidSet:
    return MysqlGtidSet.parse(",".join(f"{source}:{number}" for source, number in found))


def members(found: MysqlGtidSet) -> Pairs:
    return {(source, n) for source, parts in found.seen.items() for a, b in parts for n in range(a, b + 1)}


@given(pairs)
def test_a_mysql_set_reads_back_as_itself(a: Pairs) -> None:
    found = mysql(a)
    assert members(found) == a
    assert MysqlGtidSet.parse(str(found)) == found
    assert hash(MysqlGtidSet.parse(str(found))) == hash(found)


@given(pairs, pairs)
def test_mysql_sets_unite_subtract_and_contain_as_sets_do(a: Pairs, b: Pairs) -> None:
    assert members(mysql(a).union(mysql(b))) == a | b
    assert members(mysql(a).subtract(mysql(b))) == a - b
    assert mysql(a).contains(mysql(b)) == (a >= b)
    assert mysql(a).union(mysql(b)) == mysql(b).union(mysql(a)) == mysql(a | b)


@given(pairs)
def test_neighbouring_mysql_intervals_are_one(a: Pairs) -> None:
    for parts in mysql(a).seen.values():
        assert all(parts[i][1] + 1 < parts[i + 1][0] for i in range(len(parts) - 1))


def test_a_mysql_set_grows_by_one_transaction() -> None:
    found = MysqlGtidSet.parse(f"{UUID}:1-5").add(f"{UUID}:6").add(f"{UUID}:9")
    assert str(found) == f"{UUID}:1-6:9"


def test_case_and_blanks_do_not_count_in_mysql_sets() -> None:
    assert MysqlGtidSet.parse(f" {UUID.upper()}:1-3,\n{OTHER}:7 ") == MysqlGtidSet.parse(f"{OTHER}:7,{UUID}:1-3")


@pytest.mark.parametrize(
    "text",
    ["x", UUID, f"{UUID}:", f"{UUID}:0", f"{UUID}:5-3", f"{UUID}:1-", f"{UUID}:-4", f"{UUID}:tag", f"{UUID}:1:tag",
     f"{UUID}:²", f"{UUID}:TAG:1", "0-1-2"],
)  # fmt: skip
def test_what_is_no_mysql_set_is_refused(text: str) -> None:
    with pytest.raises(Terminal, match="MySQL GTID"):
        MysqlGtidSet.parse(text)


@given(positions)
def test_a_mariadb_set_reads_back_as_itself(last: dict[int, tuple[int, int]]) -> None:
    found = MariadbGtidSet(last)
    assert MariadbGtidSet.parse(str(found)) == found
    assert hash(MariadbGtidSet.parse(str(found))) == hash(found)


@given(positions, positions)
def test_the_union_of_mariadb_sets_is_the_least_that_contains_both(
    a: dict[int, tuple[int, int]], b: dict[int, tuple[int, int]]
) -> None:
    one, two = MariadbGtidSet(a), MariadbGtidSet(b)
    both = one.union(two)
    assert both.contains(one)
    assert both.contains(two)
    assert {d: n for d, (_, n) in both.last.items()} == {
        d: max(a.get(d, (0, 0))[1], b.get(d, (0, 0))[1]) for d in a.keys() | b.keys()
    }
    assert one.contains(two) == all(d in a and a[d][1] >= n for d, (_, n) in b.items())


def test_a_mariadb_set_grows_in_its_domain_and_never_shrinks() -> None:
    found = MariadbGtidSet.parse("0-1-5, 1-2-7")
    assert str(found.add("0-3-6")) == "0-3-6,1-2-7"
    assert found.add("0-3-4") is found
    assert str(found.add("2-1-1")) == "0-1-5,1-2-7,2-1-1"


@pytest.mark.parametrize("text", ["x", "0-1", "0-1-2-3", "0-1-x", "0-1-5,0-2-6", "0-1-²"])
def test_what_is_no_mariadb_position_is_refused(text: str) -> None:
    with pytest.raises(Terminal, match="MariaDB GTID"):
        MariadbGtidSet.parse(text)


@pytest.mark.parametrize("text", ["", "0-1-5,1-2-7"])
def test_only_one_mariadb_transaction_is_added_at_a_time(text: str) -> None:
    with pytest.raises(Terminal, match="not one"):
        MariadbGtidSet().add(text)


def test_nothing_seen_is_contained_in_everything() -> None:
    for flavour, some in (("mariadb", "0-1-5"), ("mysql", f"{UUID}:1")):
        nothing, found = parse_gtid_set("", flavour), parse_gtid_set(some, flavour)  # type: ignore[arg-type]
        assert str(nothing) == ""
        assert found.contains(nothing)  # type: ignore[arg-type]
        assert not nothing.contains(found)  # type: ignore[arg-type]


@given(pairs, st.sampled_from(SOURCES), st.integers(1, 13))
def test_a_mysql_set_grows_by_one_transaction_as_by_a_set_of_one(a: Pairs, source: str, number: int) -> None:
    before = mysql(a)
    after = before.add(f"{source}:{number}")
    assert after == before.union(MysqlGtidSet.parse(f"{source}:{number}"))
    assert members(after) == a | {(source, number)}
    assert (after is before) == ((source, number) in a)
    assert before.add(f" {source.upper() if ':' not in source else source}:{number}-{number}\n") == after


@given(pairs, st.sampled_from(SOURCES), st.integers(1, 13), st.integers(0, 5))
def test_a_mysql_set_grows_by_a_run_that_it_has_nothing_of(a: Pairs, source: str, first: int, more: int) -> None:
    run = {(source, number) for number in range(first, first + more + 1)}
    after = mysql(a).follow(source, first, first + more)
    assert (after is None) == bool(a & run)
    assert after is None or after == mysql(a | run)


@given(positions, st.integers(0, 4), st.integers(1, 3), st.integers(1, 51), st.integers(0, 5))
def test_a_mariadb_set_grows_by_one_transaction_and_by_a_run(
    last: dict[int, tuple[int, int]], domain: int, server: int, first: int, more: int
) -> None:
    before = MariadbGtidSet(last)
    after = before.add(f"{domain}-{server}-{first}")
    older = domain in last and last[domain][1] >= first
    assert after == before.union(MariadbGtidSet({domain: (server, first)}))
    assert (after is before) == older
    assert before.add(f" {domain}-{server}-{first},") == after
    run = before.follow(f"{domain}-{server}", first, first + more)
    assert (run is None) == older
    assert run is None or run == before.union(MariadbGtidSet({domain: (server, first + more)}))


@pytest.mark.parametrize("text", ["", "x", "1-2", "0-1-²", f"{UUID}:1"])
def test_what_is_no_mariadb_gtid_is_not_added(text: str) -> None:
    with pytest.raises(Terminal, match="MariaDB GTID"):
        MariadbGtidSet().add(text)


@pytest.mark.parametrize("text", ["", "x", f"{UUID}:", f"{UUID}:0", f"{UUID}:²", "0-1-2"])
def test_what_is_no_mysql_gtid_is_not_added(text: str) -> None:
    before = MysqlGtidSet.parse(f"{UUID}:1-5")
    if text:
        with pytest.raises(Terminal, match="MySQL GTID"):
            before.add(text)
    else:
        assert before.add(text) is before
