"""A session of capture is ended at each of its steps, by a kill and by an error; the log is the story all the same."""

from __future__ import annotations

import random

import pytest

from tests.support.source.crash_harness import CrashHarness, crashed
from tests.support.source.simulated_server import How

CRASHES = 1_000


@pytest.mark.parametrize("how", ["kill", "error"])
def test_sessions_that_end_at_every_step_lose_and_double_nothing(how: How) -> None:
    whole = CrashHarness(0)
    assert whole.session()
    steps, crashes, finished, step = whole.steps.count, 0, 0, 0
    while step < steps or crashes < CRASHES // 2:
        step += 1
        chance = random.Random(step)
        # What comes after a crash may crash, too: at the start of the next session, or later.
        again = [chance.choice((chance.randint(1, 40), chance.randint(1, steps))) for _ in range(chance.randint(0, 2))]
        at = [(step - 1) % steps + 1, *again]
        world = crashed(
            step,
            lambda session, at=at: at[session] if session < len(at) else 0,  # type: ignore[misc]
            how,
            group_bytes=chance.choice((1, 900, 1_000_000)),
        )
        crashes += world.crashes
        finished += world.finished
    assert crashes >= CRASHES // 2
    assert finished > 20
