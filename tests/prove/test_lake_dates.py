"""What is kept of dates over a thousand ways that a topic may go; the unit tests try a sample."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.lake.dates.histories import ACTIONS, happens
from tests.support.servers.fixture import PROVE

pytestmark = [
    pytest.mark.skipif(PROVE not in os.environ, reason=f"takes minutes: set {PROVE}=1"),
    pytest.mark.timeout(900),
]


@given(st.lists(ACTIONS, min_size=5, max_size=40))
@settings(max_examples=1000, deadline=None)
def test_dates_are_told_and_listed_as_if_all_was_read_each_time(actions: list[tuple[str, int, int]]) -> None:
    happens(actions)
