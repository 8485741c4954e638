from __future__ import annotations

import pytest

from include.clock import ManualClock
from include.errors import BackPressure, LyrebirdError, Terminal, Transient
from include.index.server_wait import ServerRetry


class Server:
    def __init__(self, *errors: LyrebirdError) -> None:
        self.errors = list(errors)
        self.waits: list[str] = []

    def call(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    def patience(self, clock: ManualClock, *, longest_s: float = 600, stopped: bool = False) -> ServerRetry:
        return ServerRetry(
            clock, longest_s=longest_s, on_wait=lambda e, _: self.waits.append(e.message), stopped=lambda: stopped
        )


def test_a_server_that_is_away_is_asked_again_and_every_pause_is_told() -> None:
    server = Server(Transient("away"), BackPressure("full"))
    assert server.patience(ManualClock()).call(server.call) == "answer"
    assert server.waits == ["away", "full"]


def test_patience_ends_with_the_last_error() -> None:
    clock, server = ManualClock(), Server(*[Transient("away")] * 10_000)
    with pytest.raises(Transient, match="away"):
        server.patience(clock, longest_s=60).call(server.call)
    assert 30 < clock.monotonic_s() <= 60


def test_a_stop_request_ends_it_at_once() -> None:
    clock, server = ManualClock(), Server(Transient("away"))
    with pytest.raises(Transient):
        server.patience(clock, stopped=True).call(server.call)
    assert clock.monotonic_s() == 0


def test_what_cannot_get_better_is_not_repeated() -> None:
    server = Server(Terminal("no"))
    with pytest.raises(Terminal):
        server.patience(ManualClock()).call(server.call)
    assert server.waits == []
