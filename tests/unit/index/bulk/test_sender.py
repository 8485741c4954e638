from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.clock import ManualClock
from include.errors import Terminal
from include.index.bulk.request import BulkLine, document_line
from include.index.bulk.sender import Delivery, DeliveryResult
from include.index.identity import DocumentIdentity
from include.index.server.memory import MemoryIndex
from include.index.server.port import BulkAnswer, ItemAnswer

DONE = ItemAnswer(201)
BUSY = ItemAnswer(429, "es_rejected_execution_exception")


class Server:
    """Gives scripted answers, then `done` for all; remembers what each request held."""

    def __init__(self, *answers: BulkAnswer | Sequence[ItemAnswer]) -> None:
        self.answers = list(answers)
        self.requests: list[list[str]] = []

    def send(self, lines: bytes) -> BulkAnswer:
        ids = [json.loads(action)["index"]["_id"] for action in lines.split(b"\n")[:-1:2]]
        self.requests.append(ids)
        if not self.answers:
            return BulkAnswer(200, [DONE] * len(ids))
        answer = self.answers.pop(0)
        return answer if isinstance(answer, BulkAnswer) else BulkAnswer(200, answer)


def lines(count: int) -> list[BulkLine]:
    return [document_line(n, DocumentIdentity(f"k{n}", 1), "order", b"{}", b"{}") for n in range(count)]


def deliver(server: Server, count: int, clock: ManualClock | None = None, **more: float) -> DeliveryResult:
    delivery = Delivery(
        server.send,
        clock or ManualClock(),
        index="orders-v1",
        bulk_bytes=1_000_000,
        patience_s=more.get("patience_s", 60),
        jitter=random.Random(1),
    )
    return delivery.deliver(lines(count))


def refs(found: Sequence[BulkLine]) -> list[int]:
    return [line.ref for line in found]


def test_only_the_items_that_were_refused_for_load_are_sent_again() -> None:
    server = Server([DONE, BUSY, DONE])
    out = deliver(server, 3)
    assert server.requests == [["k0", "k1", "k2"], ["k1"]]
    assert (len(out.done), out.retries, out.waiting) == (3, 1, [])


def test_a_request_without_an_answer_is_sent_again_whole() -> None:
    for answer in (BulkAnswer(0, type="ConnectionTimeout"), BulkAnswer(502), BulkAnswer(200, [DONE])):
        server = Server(answer)
        assert len(deliver(server, 2).done) == 2
        assert server.requests == [["k0", "k1"], ["k0", "k1"]]


def test_a_request_that_is_too_large_is_split_and_a_document_that_is_too_large_is_dead() -> None:
    too_large = BulkAnswer(413)
    server = Server(too_large, too_large, too_large)
    out = deliver(server, 4)
    assert server.requests == [["k0", "k1", "k2", "k3"], ["k0", "k1"], ["k0"], ["k1"], ["k2", "k3"]]
    assert [(line.ref, answer.status) for line, answer in out.dead] == [(0, 413)]
    assert refs(out.done) == [1, 2, 3]


def test_one_line_that_spoils_a_request_is_found_by_halving() -> None:
    class Picky(Server):
        def send(self, sent: bytes) -> BulkAnswer:
            bad = b'"k2"' in sent
            if bad:
                self.answers = [BulkAnswer(400, type="action_request_validation_exception")]
            return super().send(sent)

    out = deliver(Picky(), 5)
    assert [line.ref for line, _ in out.dead] == [2]
    assert sorted(refs(out.done)) == [0, 1, 3, 4]


def test_an_item_with_an_unknown_400_is_dead_only_when_it_fails_alone_too() -> None:
    odd = ItemAnswer(400, "odd_exception", "why")
    out = deliver(Server([DONE, odd]), 2)
    assert (refs(out.done), out.dead) == ([0, 1], [])
    out = deliver(Server([DONE, odd], [odd]), 2)
    assert [(line.ref, answer.reason) for line, answer in out.dead] == [(1, "why")]


def test_stale_and_refused_documents_are_told_apart() -> None:
    refused = ItemAnswer(400, "document_parsing_exception", "field a")
    out = deliver(Server([DONE, ItemAnswer(409, "version_conflict_engine_exception"), refused]), 3)
    assert (refs(out.done), refs(out.stale), [line.ref for line, _ in out.dead]) == ([0], [1], [2])


@pytest.mark.parametrize("answer", [BulkAnswer(404, type="index_not_found_exception"), BulkAnswer(401)])
def test_an_index_that_is_not_there_stops_the_delivery_with_the_next_step(answer: BulkAnswer) -> None:
    with pytest.raises(Terminal, match="orders-v1"):
        deliver(Server(answer), 2)
    with pytest.raises(Terminal, match="lyrebird index create orders"):
        deliver(Server([DONE, ItemAnswer(404, "index_not_found_exception")]), 2)


def test_what_is_not_taken_within_the_patience_is_waiting_and_nothing_is_lost() -> None:
    clock = ManualClock()
    out = deliver(Server([DONE, BUSY, BUSY], *[BulkAnswer(503, reason="no shard")] * 1000), 3, clock, patience_s=30)
    assert (refs(out.done), refs(out.waiting)) == ([0], [1, 2])
    assert "no shard" in out.reason
    assert clock.monotonic_s() <= 30


def test_waits_are_as_long_as_the_server_asks() -> None:
    clock = ManualClock()
    deliver(Server(BulkAnswer(429, retry_after_s=7)), 1, clock)
    assert clock.monotonic_s() >= 7


def test_a_full_disk_is_waited_for_slowly() -> None:
    clock = ManualClock()
    out = deliver(Server([ItemAnswer(429, "cluster_block_exception", "flood stage")]), 1, clock)
    assert len(out.done) == 1
    assert clock.monotonic_s() >= 5


FAULTS = st.sampled_from(
    [
        BulkAnswer(0, type="ConnectionError"),
        BulkAnswer(503),
        BulkAnswer(413),
        BulkAnswer(429),
        BulkAnswer(200, []),
        None,
        None,
    ]
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=30), st.lists(FAULTS, max_size=20))
def test_whatever_the_faults_each_line_is_settled_once_and_the_index_holds_the_newest(
    states: list[tuple[int, int]], faults: list[BulkAnswer | None]
) -> None:
    index = MemoryIndex()
    index.create("orders-v1", {})
    index.answers.extend(faults)
    sent = [
        document_line(n, DocumentIdentity(f"k{key}", version), "order", b'{"v":%d}' % version, b"{}")
        for n, (key, version) in enumerate(states)
    ]
    delivery = Delivery(
        lambda data: index.bulk("orders-v1", data),
        ManualClock(),
        index="orders-v1",
        bulk_bytes=300,
        patience_s=10_000,
        jitter=random.Random(1),
    )
    out = delivery.deliver(sent)
    settled = [*refs(out.done), *refs(out.stale), *(line.ref for line, _ in out.dead)]
    assert sorted(settled) == list(range(len(states)))
    dead = {line.ref for line, _ in out.dead}
    newest: dict[str, int] = {}
    for n, (key, version) in enumerate(states):
        if n not in dead:
            newest[f"k{key}"] = max(newest.get(f"k{key}", 0), version)
    for doc_id, most in newest.items():
        found = index.get("orders-v1", doc_id)
        assert found is not None
        assert found.source["order"]["v"] == most
