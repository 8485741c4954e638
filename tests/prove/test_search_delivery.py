"""The indexer's delivery against an Elasticsearch that fails: 12,000 random schedules, some of them over sockets.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_search_delivery.py
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from include.index.server import elasticsearch as adapter
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.port import BulkAnswer
from include.settings.connections import Elasticsearch
from tests.support.faults.elasticsearch.mutants import MUTANTS, Mutant
from tests.support.faults.elasticsearch.server import serving
from tests.support.faults.elasticsearch.simulation import NAME, Simulation

if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_search_delivery.py", allow_module_level=True)

SCHEDULES = 12_000
SERVED = 250


def test_over_all_schedules_the_index_is_the_model_and_nothing_settled_is_sent_again() -> None:
    found: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        simulation = Simulation(seed)
        simulation.run()
        assert simulation.wrong == [], f"seed {seed}"
        found.update(requests=simulation.node.requests, crashes=simulation.crashes)
    print(f"{SCHEDULES:,} schedules: {dict(found)}")
    assert found["crashes"] > SCHEDULES / 10
    assert found["requests"] > 3 * SCHEDULES


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_is_caught_often(mutant: Mutant) -> None:
    caught = 0
    for seed in range(2000):
        simulation = Simulation(seed)
        mutant.run(simulation)
        caught += bool(simulation.wrong)
    print(f"{mutant.name}: caught by {caught} of 2,000 schedules")
    assert caught > 20


def test_over_sockets_the_same_holds_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_BULK_S", 0.3)
    met: Counter[str] = Counter()
    for seed in range(SERVED):
        simulation = Simulation(seed)
        with serving(simulation.index, simulation.node) as url:
            index = ElasticsearchIndex(Elasticsearch(url=url))

            def send(lines: bytes, index: ElasticsearchIndex = index) -> BulkAnswer:
                answer = index.bulk(NAME, lines)
                met[f"{answer.status} {answer.type}"] += 1
                return answer

            try:
                simulation.run(send)
            finally:
                index.close()
        assert simulation.wrong == [], f"seed {seed}"
    print(dict(met))
    for kind in ("ConnectionError", "ConnectionTimeout", "SerializationError"):
        assert met[f"0 {kind}"] > 10
