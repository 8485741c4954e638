"""Time as an argument."""

from __future__ import annotations

import datetime as dt

import pytest

from include.clock import ManualClock, SystemClock, iso


def test_a_manual_clock_moves_only_when_told_and_sleeping_moves_it() -> None:
    clock = ManualClock(1_000_000)
    assert (clock.now_us(), clock.monotonic_s()) == (1_000_000, 0.0)
    clock.sleep(1.5)
    clock.advance(0.25)
    assert (clock.now_us(), clock.monotonic_s()) == (2_750_000, 1.75)


def test_the_machines_clock_goes_on() -> None:
    clock = SystemClock()
    before = clock.now_us(), clock.monotonic_s()
    clock.sleep(0)
    assert clock.monotonic_s() >= before[1]
    assert before[0] > dt.datetime(2020, 1, 1, tzinfo=dt.UTC).timestamp() * 1_000_000


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_793_588_645_000_006, "2026-11-02T03:04:05.000006Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
    ],
)
def test_times_are_shown_in_utc_to_the_microsecond(us: int, text: str) -> None:
    assert iso(us) == text
