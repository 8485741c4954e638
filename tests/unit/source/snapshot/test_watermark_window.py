"""Chunks against the stream: a model of a table, its binlog, snapshots at odd places, and a reader of the topic."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.rows.shape import EncodedImage
from include.source.snapshot.watermark_window import SnapshotSpan, StreamPlace, WatermarkWindow


def at(number: int) -> SourcePosition:
    """After the transaction of that number."""
    gtids = MariadbGtidSet({0: (1, number)}) if number else MariadbGtidSet()
    return SourcePosition("mariadb", gtids, BinlogPosition("bin.000001", 4 + number), 0)


def image(key: int, value: int) -> EncodedImage:
    return EncodedImage(b"%d" % value, b"%d" % key, None)


@dataclass
class UnderWay:
    since: StreamPlace
    span: SnapshotSpan
    images: list[EncodedImage]


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), exact=st.booleans(), gtids=st.booleans(), tight=st.booleans())
def test_no_key_ever_steps_back_and_the_topic_ends_as_the_table(
    seed: int, exact: bool, gtids: bool, tight: bool
) -> None:
    chance = random.Random(seed)
    # Each transaction puts or deletes (None) a few keys; a value is its transaction's number, so newer is greater.
    transactions = [
        {chance.randrange(6): number if chance.random() < 0.7 else None for _ in range(chance.randint(1, 2))}
        for number in range(1, 25)
    ]
    states: list[dict[int, int | None]] = [dict.fromkeys(range(6))]
    for each in transactions:
        states.append(states[-1] | {key: value for key, value in each.items()})

    def place(number: int) -> SourcePosition:
        found = at(number)
        return found if gtids else SourcePosition("mysql", MariadbGtidSet(), found.binlog, 0)

    # Where notes are lost, chunks are read again.
    window, position = (WatermarkWindow(["s.t"], 300, 3) if tight else WatermarkWindow(["s.t"])), 0
    waiting: list[UnderWay] = []
    topic: dict[bytes, int] = {}
    seen: dict[bytes, int] = {}
    read_at_all = 0
    while position < len(transactions) or waiting or read_at_all < 2:
        what = chance.random()
        if what < 0.4 and position < len(transactions):
            position += 1
            window.on_transaction(f"0-1-{position}" if gtids else "", at(position).binlog)
            for key, value in transactions[position - 1].items():
                name = b"%d" % key
                window.on_key("s.t", b"12345" + name)
                assert position > seen.get(name, 0)
                seen[name] = position
                topic.pop(name, None)
                if value is not None:
                    topic[name] = value
        elif what < 0.6 and len(waiting) < 3:
            low = chance.randint(position, len(transactions))
            high = low if exact else chance.randint(low, len(transactions))
            # What an inexact snapshot shows of a key: its state somewhere between.
            images = []
            for key in range(6):
                value = states[chance.randint(low, high)][key]
                if value is not None:
                    images.append(image(key, value))
            waiting.append(
                UnderWay(StreamPlace(window.number, place(position)), SnapshotSpan(place(low), place(high)), images)
            )
            read_at_all += 1
        elif waiting:
            chunk = chance.choice(waiting)
            verdict = window.verdict("s.t", chunk.since, chunk.span, place(position))
            assert tight or verdict != "again"
            if verdict == "again":
                assert not chunk.span.low.covers(place(position))
                waiting.remove(chunk)
                read_at_all -= 1
            if verdict == "go":
                waiting.remove(chunk)
                for row in window.fresh("s.t", chunk.since, chunk.span.low, chunk.images):
                    # It is what the table holds at the stream's own place.
                    assert int(row.row) == states[position][int(row.key)]
                    topic[row.key] = int(row.row)
        window.prune(min((chunk.since.number for chunk in waiting), default=window.number), place(position))
    assert topic == {b"%d" % key: value for key, value in states[-1].items() if value is not None}


def test_a_chunk_of_before_an_alter_that_the_stream_has_passed_is_read_again() -> None:
    window = WatermarkWindow(["s.t", "s.u"])
    since = StreamPlace(window.number, at(0))
    window.on_transaction("0-1-1", at(1).binlog)
    window.on_alter("s.t")
    assert window.verdict("s.t", since, SnapshotSpan(at(0), at(0)), at(1)) == "again"
    assert window.verdict("s.t", since, SnapshotSpan(at(1), at(1)), at(1)) == "go"
    assert window.verdict("s.u", since, SnapshotSpan(at(0), at(0)), at(1)) == "go"
    assert window.verdict("s.t", since, SnapshotSpan(at(2), at(2)), at(1)) == "wait"


def test_notes_of_more_changes_than_memory_should_hold_are_lost_and_chunks_of_before_read_again() -> None:
    window = WatermarkWindow(["s.t", "s.u"], most_bytes=100_000)
    since = StreamPlace(window.number, at(0))
    window.on_transaction("0-1-1", at(1).binlog)
    window.on_key("s.u", b"123457")
    for key in range(1_001):
        window.on_key("s.t", b"12345%d" % key)
    window.prune(0, at(1))
    # The stream has overtaken this one: what it changed since is not known.
    assert window.verdict("s.t", since, SnapshotSpan(at(0), at(0)), at(1)) == "again"
    # This one shows the transaction already, wherever the stream is.
    assert window.verdict("s.t", since, SnapshotSpan(at(1), at(1)), at(1)) == "go"
    assert window.verdict("s.t", since, SnapshotSpan(at(2), at(2)), at(1)) == "wait"
    assert window.verdict("s.t", StreamPlace(window.number, at(1)), SnapshotSpan(at(1), at(1)), at(1)) == "go"
    # Another table lost nothing.
    assert window.verdict("s.u", since, SnapshotSpan(at(0), at(0)), at(1)) == "go"
    assert window.fresh("s.u", since, at(0), [image(7, 1), image(8, 1)]) == [image(8, 1)]


def test_more_transactions_than_memory_should_hold_are_lost_as_notes_are() -> None:
    window = WatermarkWindow(["s.t"], most_transactions=10)
    since = StreamPlace(window.number, at(0))
    window.on_transaction("0-1-1", at(1).binlog)
    window.on_alter("s.t")
    for number in range(2, 13):
        window.on_transaction(f"0-1-{number}", at(number).binlog)
        window.on_key("s.t", b"12345%d" % number)
    window.prune(0, at(12))
    assert window.verdict("s.t", since, SnapshotSpan(at(11), at(11)), at(12)) == "again"
    assert window.verdict("s.t", since, SnapshotSpan(at(12), at(12)), at(12)) == "go"
    window.on_transaction("0-1-13", at(13).binlog)
    window.on_key("s.t", b"123457")
    assert window.fresh("s.t", since, at(12), [image(7, 1), image(8, 1)]) == [image(8, 1)]


@pytest.mark.timeout(120)
def test_a_transaction_of_millions_of_rows_is_noted_in_bounded_memory() -> None:
    window = WatermarkWindow(["s.t"])
    window.on_transaction("0-1-1", at(1).binlog)
    tracemalloc.start()
    try:
        for key in range(3_000_000):
            window.on_key("s.t", b"12345%08d" % key)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000_000


def test_without_chunks_under_way_nothing_is_remembered() -> None:
    window = WatermarkWindow(["s.t"])
    window.on_transaction("0-1-1", at(1).binlog)
    window.on_key("s.t", b"123457")
    window.prune(window.number, at(1))
    assert window.fresh("s.t", StreamPlace(0, at(0)), at(0), [image(7, 1)]) == [image(7, 1)]
