"""What is sent when, and how many requests at once: the machine alone, fed with answers, and with threads."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from include.clock import ManualClock, SystemClock
from include.errors import Terminal
from include.index.bulk.request import BulkLine
from include.index.bulk.scheduler import BulkRequest, Concurrency, InFlight
from include.index.bulk.sender import Delivery
from include.index.server.port import BulkAnswer, ItemAnswer

DONE = ItemAnswer(201)


def flight(concurrency: Concurrency, *, patience_s: float = 60) -> InFlight:
    return InFlight(
        index="orders-v1", bulk_bytes=10, patience_s=patience_s, concurrency=concurrency, jitter=random.Random(1)
    )


def lines(count: int) -> list[BulkLine]:
    return [BulkLine(n, b"0123456789") for n in range(count)]


def under_way(machine: InFlight, now_s: float) -> list[BulkRequest]:
    found = []
    while (request := machine.next(now_s)) is not None:
        found.append(request)
    return found


def good(request: BulkRequest) -> BulkAnswer:
    return BulkAnswer(200, [DONE] * len(request.lines))


def test_one_more_request_is_under_way_for_each_round_that_the_server_takes() -> None:
    machine = flight(Concurrency(8))
    machine.add(lines(100), 0)
    sizes = []
    for _ in range(6):
        requests = under_way(machine, 0)
        sizes.append(len(requests))
        for request in requests:
            machine.on_answer(request, good(request), 0)
    assert sizes == [2, 3, 4, 5, 6, 7]


def test_a_server_under_strain_gets_half_as_many_once_for_all_that_were_under_way() -> None:
    concurrency = Concurrency(16)
    machine = flight(concurrency)
    machine.add(lines(500), 0)
    for now_s in range(10):
        for request in under_way(machine, now_s):
            machine.on_answer(request, good(request), now_s)
    before = concurrency.limit
    for request in under_way(machine, 10):
        machine.on_answer(request, BulkAnswer(429), 11)
    assert concurrency.limit == before // 2
    assert machine.next(11) is None
    for request in under_way(machine, machine.resume_s):
        machine.on_answer(request, BulkAnswer(0), machine.resume_s + 1)
    assert concurrency.limit == before // 4


def test_while_a_wait_lasts_nothing_is_sent_and_retry_after_is_kept_to() -> None:
    machine = flight(Concurrency(4))
    machine.add(lines(3), 0)
    first, second = under_way(machine, 0)
    machine.on_answer(first, BulkAnswer(429, retry_after_s=7), 1)
    assert machine.resume_s == 8
    machine.on_answer(second, good(second), 2)
    assert machine.next(7.9) is None
    again = under_way(machine, 8)
    assert [line.ref for request in again for line in request.lines] == [2, 0]


def test_patience_counts_from_the_last_line_that_the_server_took() -> None:
    machine = flight(Concurrency(1), patience_s=10)
    machine.add(lines(2), 0)
    request = machine.next(0)
    assert request is not None
    machine.on_answer(request, good(request), 9)
    request = machine.next(9)
    assert request is not None
    machine.on_answer(request, BulkAnswer(503, retry_after_s=9), 9)
    assert not machine.given_up()
    request = machine.next(18)
    assert request is not None
    machine.on_answer(request, BulkAnswer(503, retry_after_s=9), 18)
    assert machine.given_up()
    machine.surrender()
    assert [line.ref for line in machine.take().waiting] == [1]
    assert machine.idle
    assert machine.pending_bytes == 0


def test_a_throughput_that_was_halved_is_back_after_as_many_rounds() -> None:
    concurrency = Concurrency(8)
    machine = flight(concurrency)
    machine.add(lines(1000), 0)
    now_s = 0.0
    for _ in range(200):
        for request in under_way(machine, now_s):
            machine.on_answer(request, BulkAnswer(429), now_s)
        now_s = machine.resume_s
    assert concurrency.limit == 1
    rounds = 0
    while concurrency.limit < 8:
        rounds += 1
        for request in under_way(machine, now_s):
            machine.on_answer(request, good(request), now_s)
    assert rounds <= 8


class Busy:
    """Counts how many requests are under way at once; each waits for the others of its round."""

    def __init__(self, together: int) -> None:
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        self._round = threading.Barrier(together, timeout=20)

    def send(self, data: bytes) -> BulkAnswer:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._round.wait()
        with self._lock:
            self._now -= 1
        return BulkAnswer(200, [DONE] * (len(data) // 10))


def test_requests_travel_at_once_and_lines_are_made_meanwhile() -> None:
    server = Busy(2)
    with ThreadPoolExecutor(2) as pool:
        delivery = Delivery(
            server.send,
            SystemClock(),
            index="i-v1",
            bulk_bytes=20,
            patience_s=20,
            pool=pool,
            concurrency=Concurrency(2),
        )
        out = delivery.give(lines(4))
        assert out.done == []
        done = [*delivery.give(lines(12)).done, *delivery.finish().done]
    assert len(done) == 16
    assert server.most == 2


def test_a_fault_is_raised_once_what_was_under_way_has_been_answered() -> None:
    answered = []

    def send(data: bytes) -> BulkAnswer:
        answered.append(data)
        return BulkAnswer(404, type="index_not_found_exception")

    with ThreadPoolExecutor(2) as pool:
        delivery = Delivery(
            send, SystemClock(), index="i-v1", bulk_bytes=10, patience_s=20, pool=pool, concurrency=Concurrency(2)
        )
        with pytest.raises(Terminal, match="lyrebird index create i"):
            delivery.deliver(lines(5))
    assert 1 <= len(answered) <= 2


def test_a_fault_of_the_last_line_is_raised_too() -> None:
    delivery = Delivery(lambda _: BulkAnswer(401), ManualClock(), index="i-v1", bulk_bytes=10, patience_s=20)
    with pytest.raises(Terminal, match="user and rights"):
        delivery.deliver(lines(1))


def poisoned(count: int) -> list[BulkLine]:
    return [
        BulkLine(n, b'{"index":{"_id":"%d","version":3,"version_type":"external","routing":"r"}}\n{}\n' % n)
        for n in range(count)
    ]


def flown(
    machine: InFlight, answer: Callable[[BulkLine], ItemAnswer], probe: Callable[[], ItemAnswer], most: int
) -> list[BulkRequest]:
    """Feeds a machine that sends one request at a time with answers to each line, until it is idle."""
    sent: list[BulkRequest] = []
    now_s = 0.0
    while not machine.idle and len(sent) < most:
        now_s = max(now_s, machine.resume_s)
        request = machine.next(now_s)
        assert request is not None
        sent.append(request)
        items = [answer(line) for line in (*request.lines, *request.beside[:1])]
        items += [probe()] if request.beside else []
        machine.on_answer(request, BulkAnswer(200, items), now_s)
    return sent


BROKEN = ItemAnswer(500, "null_pointer_exception", "a pipeline's bug")


def wide(patience_s: float = 3600) -> InFlight:
    return InFlight(
        index="orders-v1",
        bulk_bytes=10_000,
        patience_s=patience_s,
        concurrency=Concurrency(1),
        jitter=random.Random(1),
    )


def test_a_document_at_which_the_server_breaks_while_others_pass_is_dead_after_its_shard_answered_a_probe() -> None:
    machine = wide()
    machine.add(poisoned(9), 0)
    sent = flown(machine, lambda line: BROKEN if line.ref in (2, 5) else DONE, lambda: ItemAnswer(404), 50)
    out = machine.take()
    assert machine.idle
    assert [line.ref for line in out.done] == [0, 1, 3, 4, 6, 7, 8]
    assert [(line.ref, why) for line, why in out.dead] == [(2, BROKEN), (5, BROKEN)]
    probed = [request for request in sent if request.beside]
    assert [[line.ref for line in request.lines] for request in probed] == [[2], [5]]
    assert probed[0].data.endswith(b'{"delete":{"_id":"2","version":0,"version_type":"external","routing":"r"}}\n')
    # The witness is a document that was taken: through whatever pipelines there are.
    assert [request.beside[0].ref for request in probed] == [8, 8]
    # Five faults each, the first of them among the others.
    assert len(sent) == 7


def test_a_fault_of_all_documents_is_an_outage_and_makes_no_dead_letters() -> None:
    machine = wide()
    machine.add(poisoned(4), 0)
    sent = flown(machine, lambda _: BROKEN, lambda: ItemAnswer(404), 40)
    out = machine.take()
    assert (out.dead, out.done, len(sent)) == ([], [], 40)
    assert not any(request.beside for request in sent)


@pytest.mark.parametrize(
    "probe", [ItemAnswer(500, "engine_exception"), ItemAnswer(503, "unavailable_shards_exception")]
)
def test_a_shard_that_answers_no_probe_is_waited_for_while_other_shards_take_theirs(probe: ItemAnswer) -> None:
    machine = wide()
    machine.add(poisoned(4), 0)
    sent = flown(machine, lambda line: BROKEN if line.ref == 1 else DONE, lambda: probe, 40)
    assert machine.take().dead == []
    # After each five faults once more, as the shard comes back some time.
    assert [n for n, request in enumerate(sent) if request.beside] == [5, 10, 15, 20, 25, 30, 35]
    assert len(sent) == 40


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_is_away_or_full_is_waited_for_however_long_others_pass(status: int) -> None:
    machine = wide()
    machine.add(poisoned(4), 0)
    away = ItemAnswer(status, "unavailable_shards_exception")
    sent = flown(machine, lambda line: away if line.ref == 1 else DONE, lambda: ItemAnswer(404), 40)
    assert machine.take().dead == []
    assert not any(request.beside for request in sent)


def test_a_document_that_passes_in_the_end_was_no_cause() -> None:
    machine = wide()
    machine.add(poisoned(3), 0)
    faults = iter([BROKEN] * 5 + [DONE])
    flown(machine, lambda line: next(faults) if line.ref == 1 else DONE, lambda: ItemAnswer(404), 40)
    out = machine.take()
    assert (sorted(line.ref for line in out.done), out.dead) == ([0, 1, 2], [])


def test_pipelines_that_break_at_every_document_are_an_outage_although_some_passed_before_and_shards_work() -> None:
    machine = wide()
    machine.add(poisoned(4), 0)
    first = iter([DONE, BROKEN, DONE, DONE])
    sent = flown(machine, lambda _: next(first, BROKEN), lambda: ItemAnswer(404), 60)
    out = machine.take()
    assert (out.dead, [line.ref for line in out.done], len(sent)) == ([], [0, 2, 3], 60)
    assert any(request.beside for request in sent)


def test_a_newer_state_of_the_witness_tells_that_pipelines_work() -> None:
    machine = wide()
    machine.add(poisoned(2), 0)
    first = iter([DONE, BROKEN])
    stale = ItemAnswer(409, "version_conflict_engine_exception")
    flown(machine, lambda line: next(first, stale if line.ref == 0 else BROKEN), lambda: ItemAnswer(409), 50)
    assert [line.ref for line, _ in machine.take().dead] == [1]


@pytest.mark.parametrize("status", [400, 413])
def test_a_request_that_is_refused_with_probe_and_witness_says_nothing_of_its_document(status: int) -> None:
    machine = wide(patience_s=100)
    machine.add(poisoned(2), 0)
    now_s = 0.0
    while not machine.given_up():
        now_s = max(now_s, machine.resume_s)
        request = machine.next(now_s)
        assert request is not None
        items = [DONE if line.ref == 0 else BROKEN for line in request.lines]
        machine.on_answer(request, BulkAnswer(status) if request.beside else BulkAnswer(200, items), now_s)
    machine.surrender()
    out = machine.take()
    assert ([line.ref for line in out.waiting], out.dead) == ([1], [])


def test_a_probe_that_gets_no_answer_leaves_its_document_waiting() -> None:
    machine = wide(patience_s=30)
    machine.add(poisoned(2), 0)
    flown(machine, lambda line: BROKEN if line.ref == 1 else DONE, lambda: ItemAnswer(404), 5)
    now_s = 0.0
    while not machine.given_up():
        now_s = max(now_s, machine.resume_s)
        request = machine.next(now_s)
        assert request is not None
        assert request.beside
        machine.on_answer(request, BulkAnswer(0, reason="timed out"), now_s)
    machine.surrender()
    out = machine.take()
    assert ([line.ref for line in out.waiting], out.dead) == ([1], [])
    assert machine.pending_bytes == 0
