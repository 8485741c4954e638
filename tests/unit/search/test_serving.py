"""What serves an alias, asked of a server that is quick, slow, away, or has lost it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Transient
from include.index.server.port import IndexInfo
from include.search import serving
from include.search.serving import NoIndex, Serving, ServingIndex


@dataclass
class Master:
    """Answers with the generation that it is at, once it is let."""

    generation: int = 1
    error: Exception | None = None
    asked: int = 0
    free: threading.Event = field(default_factory=threading.Event)

    def describe(self, alias: str) -> IndexInfo | None:
        self.asked += 1
        generation, error = self.generation, self.error
        assert self.free.wait(10)
        if error is not None:
            raise error
        return IndexInfo(f"{alias}-v{generation}", f"uuid-{generation}", {}, {alias: {}}) if generation else None

    def note(self, *_: Any) -> None:
        return None


@pytest.fixture
def master() -> Master:
    made = Master()
    made.free.set()
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def asked(master: Master, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Serving:
    # However busy the machine: a server that answers at once is waited for.
    monkeypatch.setattr(serving, "_GRACE_S", 5.0)
    return Serving(master, "orders", "assembled_order", clock)  # type: ignore[arg-type]


def test_a_server_that_answers_is_asked_once_a_second(asked: Serving, master: Master, clock: ManualClock) -> None:
    assert asked.now() == ServingIndex("orders-v1", None, None)
    master.generation = 2
    clock.sleep(0.9)
    assert asked.now().name == "orders-v1"
    clock.sleep(0.2)
    assert asked.now().name == "orders-v2"
    assert master.asked == 2


def slow(asked: Serving, master: Master, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known is of generation 1; the next answer does not come."""
    asked.now()
    monkeypatch.setattr(serving, "_GRACE_S", 0.01)
    master.free.clear()
    clock.sleep(2)


def test_readers_go_on_while_a_master_is_slow_and_ask_it_once(
    asked: Serving, master: Master, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(asked, master, clock, monkeypatch)
    master.generation = 2
    assert [asked.now().name for _ in range(20)] == ["orders-v1"] * 20
    master.free.set()
    assert asked.now(clock.monotonic_s()).name == "orders-v2"
    assert master.asked == 2


def test_who_needs_a_newer_one_waits_for_a_question_that_is_put_later(
    asked: Serving, master: Master, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(asked, master, clock, monkeypatch)
    asked.now()
    clock.sleep(1)
    master.generation = 2
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(asked.now(clock.monotonic_s()).name))
    reader.start()
    master.free.set()
    reader.join(10)
    assert found == ["orders-v2"]
    assert master.asked == 3


def test_what_is_known_does_not_do_for_ever(
    asked: Serving, master: Master, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.now()
    master.error = Transient("does not answer")
    clock.sleep(14)
    assert asked.now().name == "orders-v1"
    clock.sleep(2)
    with pytest.raises(Transient):
        asked.now()


@pytest.mark.parametrize("forget", [False, True])
def test_an_alias_that_leads_nowhere_is_told_at_once(
    asked: Serving, master: Master, clock: ManualClock, forget: bool
) -> None:
    asked.now()
    master.generation = 0
    clock.sleep(2)
    if forget:
        asked.forget()
    with pytest.raises(NoIndex):
        asked.now()


def test_an_answer_from_before_a_loss_is_not_kept(
    asked: Serving, master: Master, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(asked, master, clock, monkeypatch)
    assert asked.now().name == "orders-v1"
    old = asked._asked
    asked.forget()
    master.generation = 2
    master.free.set()
    assert old is not None
    assert old.result(10)[1].name == "orders-v1"
    assert asked.now().name == "orders-v2"
