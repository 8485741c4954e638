"""Whatever is stored, forgotten, replaced, torn and crashes: dates are told and listed as if all was read each time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.lake.dates.histories import ACTIONS, happens


@pytest.mark.timeout(120)
@given(st.lists(ACTIONS, min_size=5, max_size=30))
@settings(max_examples=40, deadline=None)
def test_dates_are_told_and_listed_as_if_all_was_read_each_time(actions: list[tuple[str, int, int]]) -> None:
    happens(actions)
