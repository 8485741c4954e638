"""Sessions that end at any step, by a kill or an error: a sample (all steps: tests/prove/test_capture_crashes.py)."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from include.source.snapshot.watermark_window import WatermarkWindow
from tests.support.source.crash_harness import crashed
from tests.support.source.simulated_server import How


@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 1000),
    st.lists(st.integers(1, 500), max_size=3),
    st.sampled_from(["kill", "error"]),
    st.sampled_from([1, 900, 1_000_000]),
)
def test_whatever_ends_sessions_each_change_is_in_the_log_once_and_in_order(
    seed: int, steps: list[int], how: How, group_bytes: int
) -> None:
    crashed(seed, lambda session: steps[session] if session < len(steps) else 0, how, group_bytes=group_bytes)


@pytest.mark.parametrize("seed", range(12))
def test_a_snapshot_whose_notes_are_lost_again_and_again_ends_all_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "include.source.snapshot.runner.WatermarkWindow", partial(WatermarkWindow, most_bytes=300, most_transactions=2)
    )
    # As many chunks as that are read again at once, more than once.
    monkeypatch.setattr("include.source.snapshot.runner._MOST_AGAIN", 4)
    crashed(seed, lambda _session: 0, "kill", snapshot_chunk_rows=1, snapshot_workers=4)
