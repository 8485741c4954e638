"""The protocol of the lake over tens of thousands of schedules; the unit tests try a sample."""

from __future__ import annotations

import os

import pytest

from tests.support.lake.model.invariants import faults
from tests.support.lake.model.simulation import world_of
from tests.support.servers.fixture import PROVE

SCHEDULES = 20_000
BLOCK = 1000

pytestmark = pytest.mark.skipif(PROVE not in os.environ, reason=f"takes minutes: set {PROVE}=1")


@pytest.mark.parametrize("start", range(0, SCHEDULES, BLOCK))
def test_no_schedule_loses_or_doubles_a_record(start: int) -> None:
    found = {seed: faults(world_of(seed).run()) for seed in range(start, start + BLOCK)}
    assert {seed: each for seed, each in found.items() if each} == {}
