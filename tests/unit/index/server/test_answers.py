"""Good news read by comparison, against the parser."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.index.server.answers import WRITTEN, serializers, written

LONG = b'{"errors":false,"items":[{"index":{"status":201}},{"index":{"status":200}}]}'


def told(statuses: list[int]) -> bytes:
    return orjson.dumps({"errors": False, "items": [{"index": {"status": status}} for status in statuses]})


@given(st.lists(st.sampled_from([200, 201]), min_size=1, max_size=40))
def test_good_news_reads_as_the_parser_reads_it(statuses: list[int]) -> None:
    assert written(told(statuses)) == [WRITTEN[status] for status in statuses]


@given(st.integers(0, len(LONG) - 1), st.integers(0, 255))
def test_an_answer_with_any_other_byte_is_the_parsers(at: int, byte: int) -> None:
    spoilt = LONG[:at] + bytes([byte]) + LONG[at + 1 :]
    found = written(spoilt)
    if found is not None:
        assert spoilt == told([item.status for item in found])


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b'{"errors":false,"items":[]}',
        LONG[:-1],
        LONG + b"\n",
        LONG[:40],
        b'{"errors":true,"items":[{"index":{"status":429,"error":{"type":"full"}}},{"index":{"status":201}}]}',
        b'{"errors":false,"items":[{"delete":{"status":200}},{"index":{"status":200}}]}',
        b'{"took":1}',
    ],
)
def test_what_is_cut_or_says_anything_else_is_the_parsers(answer: bytes) -> None:
    assert written(answer) is None


def test_requests_that_are_bytes_with_a_final_newline_travel_as_they_are() -> None:
    ndjson = serializers()["application/x-ndjson"]
    ready = b'{"index":{"_id":"1"}}\n{}\n'
    assert ndjson.dumps(ready) is ready
    assert ndjson.dumps(ready[:-1]) == ready
    assert ndjson.dumps([{"index": {"_id": "1"}}, {}]) == ready
