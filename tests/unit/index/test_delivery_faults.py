"""A sample of `tests/prove/test_search_delivery.py`: deliveries under random faults, and mutants that are caught."""

from __future__ import annotations

import pytest

from tests.support.faults.elasticsearch.mutants import MUTANTS, Mutant
from tests.support.faults.elasticsearch.simulation import Simulation

SCHEDULES = 300


def test_whatever_befalls_a_delivery_the_index_is_the_model_and_nothing_settled_is_sent_again() -> None:
    crashes = requests = 0
    for seed in range(SCHEDULES):
        simulation = Simulation(seed)
        simulation.run()
        assert simulation.wrong == [], f"seed {seed}"
        crashes += simulation.crashes
        requests += simulation.node.requests
    # The schedules are what they are said to be.
    assert crashes > SCHEDULES / 20
    assert requests > 3 * SCHEDULES


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_delivery_that_lacks_one_of_its_rules_is_caught(mutant: Mutant) -> None:
    caught = 0
    for seed in range(SCHEDULES // 2):
        simulation = Simulation(seed)
        mutant.run(simulation)
        caught += bool(simulation.wrong)
    assert caught > 1
