"""Control records, requests, answers and dead letters."""

from __future__ import annotations

import pytest

from include.errors import InvalidRecord, Terminal
from include.log.control import ControlRecord
from include.log.ports import Record
from include.log.publishing.dead_letter import DeadLetter, DeadLetterLimit
from include.log.requests.records import Answer, Request

RECORD = Record("cdc.s.d.orders", 3, 41, b"k", b"\x00junk", (("version", b"9"), ("none", None)), 1_700_000_000_000)


def letter(offset: int = 41) -> DeadLetter:
    record = Record("cdc.s.d.orders", 3, offset, b"k", b"v")
    return DeadLetter.of(record, "app", InvalidRecord("not a change", reason="magic"), 5)


def test_control_records_survive_their_bytes() -> None:
    control = ControlRecord("truncate", "shop", "orders", 17, "0-1-2")
    assert ControlRecord.parse(control.value()) == control
    assert control.key() == b"shop.orders/truncate"


def test_requests_and_answers_survive_their_bytes() -> None:
    request = Request("id-1", "reread", "test", 5, ("shop.orders",), ("[1]", "[2]"))
    assert Request.parse(request.value()) == request
    answer = Answer("id-1", "running", 6, done=3, total=None, note="n")
    assert Answer.parse(answer.value()) == answer
    assert request.key() == answer.key() == b"id-1"


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b"3", b'{"id": "x"}', b'{"none": 1}'])
def test_other_bytes_are_invalid_records(data: bytes) -> None:
    for parse in (ControlRecord.parse, Request.parse, Answer.parse):
        with pytest.raises(InvalidRecord, match="not a"):
            parse(data)


def test_a_dead_letter_keeps_the_record_whole_and_says_where_it_was() -> None:
    found = DeadLetter.of(RECORD, "assemble_orders", InvalidRecord("not a change", reason="magic"), 77)
    assert found.topic == "cdc.s.d.orders.assemble_orders.dead"
    assert (found.key, found.value) == (RECORD.key, RECORD.value)
    assert list(found.headers)[:2] == list(RECORD.headers)
    written = Record(found.topic, 0, 0, found.key, found.value, found.headers)
    assert DeadLetter.parse(written) == found
    assert found.reason == "InvalidRecord: not a change (reason='magic')"


def test_a_tombstone_can_be_set_aside_too() -> None:
    record = Record("t", 0, 1, b"k", None)
    found = DeadLetter(record, "app", "r", 1)
    assert DeadLetter.parse(Record(found.topic, 0, 0, found.key, found.value, found.headers)).record == record


def test_a_record_that_is_no_dead_letter_is_refused() -> None:
    with pytest.raises(Terminal, match=r"cdc\.s\.d\.orders/3@41"):
        DeadLetter.parse(RECORD)


def test_a_long_reason_is_cut() -> None:
    headers = dict(DeadLetter(RECORD, "app", "x" * 9000, 1).headers)
    assert len(headers["dead.reason"] or b"") == 2000


def test_a_run_of_dead_letters_stops_the_stage_and_names_the_last() -> None:
    limit = DeadLetterLimit(ratio=1.0, run=3)
    limit.set_aside(letter())
    limit.set_aside(letter())
    with pytest.raises(Terminal, match=r"not a change.*nothing of this batch was committed") as refused:
        limit.set_aside(letter(43))
    assert refused.value.details["offset"] == 43


def test_a_record_that_passes_ends_the_run() -> None:
    limit = DeadLetterLimit(ratio=1.0, run=3)
    for _ in range(10):
        limit.set_aside(letter())
        limit.set_aside(letter())
        limit.passed()
    assert (limit.seen, limit.dead) == (30, 20)


def test_bad_records_of_a_batch_count_as_if_they_were_spread_over_it() -> None:
    limit = DeadLetterLimit(ratio=0.1, run=20)
    limit.batch([letter() for _ in range(30)], 900)
    assert (limit.seen, limit.dead) == (930, 30)
    limit.batch([], 70)
    with pytest.raises(Terminal, match="too many records"):
        limit.batch([letter() for _ in range(200)], 800)
    with pytest.raises(Terminal) as refused:
        DeadLetterLimit(ratio=1.0, run=20).batch([letter() for _ in range(30)], 10)
    assert refused.value.details["in_a_row"] == 20


def test_too_great_a_share_stops_the_stage_once_enough_was_seen() -> None:
    limit = DeadLetterLimit(ratio=0.1, run=20)
    limit.set_aside(letter())
    limit.passed(9)
    limit.set_aside(letter())
    limit.passed(8)
    limit.passed(0)
    with pytest.raises(Terminal) as refused:
        limit.set_aside(letter())
    assert (refused.value.details["dead"], refused.value.details["seen"]) == (3, 20)
