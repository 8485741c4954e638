"""A task that enters records many at once, against one that takes each the long way: the same requests and outcome."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.clock import ManualClock
from include.index.bulk.sender import Delivery
from include.index.definition import IndexTopic
from include.index.feed import Feed
from include.index.metadata import TopicOrigin
from include.index.outcome import SETTLED, TaskOutcome
from include.index.server.port import BulkAnswer, ItemAnswer
from include.index.states import States
from include.index.task import IndexTask, Raw
from include.log.memory import MemoryRegistry
from include.record.codec import Encoder
from include.record.version import pack

pytestmark = pytest.mark.compiled

KEY: dict[str, Any] = {"type": "record", "name": "Key", "fields": [{"name": "order_id", "type": "long"}]}
ORDER: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "note", "type": ["null", "string"]}]}
NEWER = {**ORDER, "fields": [*ORDER["fields"], {"name": "state", "type": "string", "default": ""}]}

REGISTRY = MemoryRegistry()
KEYS = Encoder(REGISTRY.register("docs-key", KEY), KEY)
OLD = Encoder(REGISTRY.register("docs-value", ORDER), ORDER)
NEW = Encoder(REGISTRY.register("docs-value", NEWER), NEWER)


@st.composite
def raws(draw: st.DrawFn) -> list[Raw]:
    found: list[Raw] = []
    for offset in range(draw(st.integers(0, 30))):
        topic = draw(st.sampled_from(["docs", "docs", "docs", "docs", "docs.resolved"]))
        partition = draw(st.integers(0, 1))
        note = draw(st.sampled_from([None, "", "x" * 90, "é" * 400]))
        kind = draw(st.sampled_from(["old", "old", "old", "new", "deleted", "spoilt", "unknown"]))
        value = {
            "old": OLD({"note": note}),
            "new": NEW({"note": note, "state": "s"}),
            "deleted": None,
            "spoilt": OLD({"note": note}) + b"\x00",
            "unknown": b"\x00\x00\x00\x00\x63",
        }[kind]
        version = pack(draw(st.sampled_from([0, 0, 0, 0, 0, 0, 0, 1])), draw(st.integers(1, 40)))
        headers = draw(st.sampled_from([[("version", b"%d" % version)]] * 9 + [[], None]))
        key = draw(st.sampled_from([KEYS({"order_id": draw(st.integers(1, 6))})] * 9 + [None, b"\x00"]))
        found.append((topic, partition, offset, key, value, headers, 7))
    return found


def run(
    records: list[Raw], refused: set[int], floor: int, window_bytes: int, *, at_once: bool
) -> tuple[TaskOutcome, list[bytes]]:
    states = States(Feed(TopicOrigin("c", "t", "docs", 1), IndexTopic(entity="order"), floor=floor), REGISTRY)
    assert states.lines is not None
    if not at_once:
        states.lines = None
    sent: list[bytes] = []

    def send(lines: bytes) -> BulkAnswer:
        sent.append(lines)
        items = []
        for line in lines.splitlines()[::2]:
            status = 400 if hash(line) % 7 in refused else 201
            items.append(ItemAnswer(status, "mapper_parsing_exception" if status == 400 else ""))
        return BulkAnswer(200, items)

    delivery = Delivery(send, ManualClock(), index="docs-v1", bulk_bytes=window_bytes, patience_s=1)
    task = IndexTask(states={"docs": states}, delivery=delivery, window_bytes=window_bytes)
    return task.run(iter(records)), sent


@settings(max_examples=200)
@given(raws(), st.sets(st.integers(0, 6), max_size=2), st.sampled_from([0, 0, 20]), st.sampled_from([1, 700, 5000]))
def test_both_ways_send_the_same_requests_and_tell_the_same(
    records: list[Raw], refused: set[int], floor: int, window_bytes: int
) -> None:
    one, sent = run(records, refused, floor, window_bytes, at_once=True)
    other, wanted = run(records, refused, floor, window_bytes, at_once=False)
    assert sent == wanted
    assert (one.counts, one.dead, one.others, one.epochs) == (other.counts, other.dead, other.others, other.epochs)
    assert (type(one.fault), str(one.fault)) == (type(other.fault), str(other.fault))
    if one.fault is None:
        assert all(of["read"] == sum(of[name] for name in SETTLED) for of in one.counts.values())


def test_a_window_sends_no_request_larger_than_its_bytes_nor_one_for_what_did_not_fit() -> None:
    records: list[Raw] = [
        ("docs", 0, n, KEYS({"order_id": n}), OLD({"note": "x" * 90}), [("version", b"%d" % (n + 1))], 7)
        for n in range(200)
    ]
    out, sent = run(records, set(), 0, 5000, at_once=True)
    assert out.total("indexed") == 200
    line_bytes = len(sent[0]) // sent[0].count(b"\n") * 2
    assert all(len(request) <= 5000 for request in sent)
    assert all(len(request) > 5000 - 2 * line_bytes for request in sent[:-1])
