from __future__ import annotations

import pytest

from include.clock import ManualClock
from include.errors import Terminal
from include.record.gtid import parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.search.freshness import UnindexedIds, covers, next_step


def at(gtids: str) -> SourcePosition:
    return SourcePosition("mariadb", parse_gtid_set(gtids, "mariadb"), BinlogPosition("bin.000001", 4), 0)


def test_a_write_is_covered_by_positions_at_or_behind_it_in_each_domain() -> None:
    assert covers(at("0-1-7"), "0-1-7")
    assert covers(at("0-1-8,1-1-3"), "0-1-7,1-1-3")
    assert not covers(at("0-1-6"), "0-1-7")
    assert not covers(at("0-1-9"), "1-1-1")


def test_without_a_position_or_without_gtids_nothing_is_covered() -> None:
    assert not covers(None, "0-1-7")
    assert not covers(at(""), "0-1-7")


def test_a_text_that_is_no_gtid_of_the_server_is_refused() -> None:
    with pytest.raises(Terminal, match="not a MariaDB GTID"):
        covers(at("0-1-7"), "7")


def test_a_read_waits_as_long_as_it_has_patience_and_then_asks_the_database() -> None:
    assert next_step(at("0-1-7"), "0-1-7", 9, 0) == "index"
    assert next_step(at("0-1-6"), "0-1-7", 0.1, 0.3) == "wait"
    assert next_step(at("0-1-6"), "0-1-7", 0.3, 0.3) == "database"


def test_that_there_is_no_document_yet_is_kept_for_a_while_only() -> None:
    clock = ManualClock()
    kept = UnindexedIds(60, clock)
    kept.add("7")
    clock.advance(59)
    assert "7" in kept
    clock.advance(1)
    assert "7" not in kept
    kept.add("7")
    kept.discard("7")
    assert "7" not in kept


def test_of_many_ids_without_a_document_the_oldest_give_way() -> None:
    kept = UnindexedIds(60, ManualClock(), most=2)
    for doc_id in ("1", "2", "1", "3"):
        kept.add(doc_id)
    assert [doc_id in kept for doc_id in ("1", "2", "3")] == [True, False, True]
