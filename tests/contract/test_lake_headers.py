"""Header names of any bytes, read by the lake from Kafka."""

from __future__ import annotations

import pytest

from include.errors import Terminal
from include.lake.reading.kafka_ranges import KafkaRanges
from include.log.kafka.log import KafkaAdmin
from include.log.ports import TopicSpec
from tests.support.log.raw_headers import RawHeaders, produce_raw


def test_header_names_that_are_not_utf8_come_byte_by_byte(kafka: str, unique: str) -> None:
    """What Kafka's client of Python cannot hand out by itself."""
    admin, ranges = KafkaAdmin(kafka), KafkaRanges(kafka)
    admin.ensure(TopicSpec(unique, 2))
    usual: RawHeaders = [(b"name", b"1"), (b"", None)]
    raw: RawHeaders = [(b"a", b"1"), (b"na\xefve", b"x"), (b"a", None)]
    for number, headers in enumerate((usual, raw, usual, raw, [])):
        produce_raw(kafka, unique, b"k", str(number).encode(), headers)
    end = ranges.edges(unique, 0)[1]
    found = [each for batch in ranges.batches(unique, 0, 0, end) for each in batch.messages]
    assert [each.value for each in found] == [b"0", b"1", b"2", b"3", b"4"]
    names = [[(name.encode("utf-8", "surrogateescape"), value) for name, value in each.headers] for each in found]
    assert names == [usual, raw, usual, raw, []]
    assert {(each.key, each.timestamp_type) for each in found} == {(b"k", 1)}

    produce_raw(kafka, unique, b"k", b"5", [(b"\xff", b"1"), (b"ok", None), (b"\xfe", None)], partition=1)
    with pytest.raises(Terminal, match="several header names that are not UTF-8") as refused:
        list(ranges.batches(unique, 1, 0, 1))
    details = refused.value.details
    assert (details["topic"], details["partition"], details["offset"], details["names"]) == (unique, 1, 0, 2)
    # The consumer that met it is not used again.
    assert len(list(ranges.batches(unique, 0, 0, end))) >= 1
    admin.delete(unique)
