"""What a capture is doing, in one line."""

from __future__ import annotations

from typing import Any

import pytest

from include.source.phase import phase_of

NOW_US = 1_000_000_000
WELL = {"at_us": NOW_US - 400_000, "started_us": 5}
WAITS = WELL | {"waiting_for": "no answer", "waiting_since_us": NOW_US - 75_000_000, "attempt": 4}


@pytest.mark.parametrize(
    ("progress", "name", "text"),
    [
        (WELL, "follows", "follows the binlog"),
        ({}, "follows", "follows the binlog"),
        (WELL | {"reading": {"table": "shop.big", "rows": 7}}, "reads", "reads shop.big for a snapshot"),
        (WELL | {"at_us": NOW_US - 12_000_000}, "silent", "has said nothing for 12 s: Kafka or the server"),
        (WAITS | {"waits_for": "kafka"}, "waits", "waits for Kafka since 1970-01-01T00:15:25"),
        (WAITS | {"waits_for": "kafka"}, "waits", "(1 min 15 s), 4 tries so far, and goes on by itself: no answer"),
        (WAITS | {"waits_for": "disk", "at_us": 1}, "waits", "waits for room on disk since"),
        (WAITS | {"waits_for": "x", "attempt": 1}, "waits", "waits for x since"),
        (WELL | {"waiting_for": "old version's"}, "waits", "waits for another system for 0 s, 0 tries so far"),
    ],
)
def test_a_capture_that_runs(progress: dict[str, Any], name: str, text: str) -> None:
    phase = phase_of(progress, {}, NOW_US, running=True)
    assert phase.name == name
    assert text in phase.text


def test_a_silent_capture_waits_for_what_does_not_answer_the_asker_either() -> None:
    phase = phase_of(WELL | {"at_us": NOW_US - 9_000_000}, {}, NOW_US, running=True, away="kafka")
    assert (phase.name, phase.awaits) == ("waits", "kafka")
    assert phase.text.startswith("has said nothing for 9 s, and Kafka does not answer: it waits for it")
    assert phase_of(WELL, {}, NOW_US, running=True, away="kafka").name == "follows"


def test_a_capture_that_does_not_run() -> None:
    never, ended = phase_of({}, {}, NOW_US, running=False), phase_of(WAITS, {}, NOW_US, running=False)
    assert (never.name, never.text) == ("off", "does not run on this host")
    assert ended.text.startswith("does not run on this host; its last word is of 1970-01-01T00:16:39")
    stopped = phase_of(WAITS, {"text": "the position was purged. Read anew", "fix": "run it"}, NOW_US, running=False)
    assert (stopped.name, stopped.fix) == ("stopped", "run it")
    assert stopped.text.endswith("would meet the same: the position was purged. Read anew")
