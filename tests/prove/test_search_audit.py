"""Both search audits over a million documents with planted faults and writes going on; a sample is in integration.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_search_audit.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.index.recovery_harness import placed
from tests.support.search.audit_proof import prove
from tests.support.search.indexer_harness import IndexerHarness
from tests.support.servers.fixture import PROVE

DOCUMENTS = "LYREBIRD_PROVE_DOCUMENTS"

pytestmark = pytest.mark.skipif(PROVE not in os.environ, reason=f"takes minutes: set {PROVE}=1")


@pytest.mark.timeout(1800)
def test_a_million_documents_with_a_hundred_faults_of_each_kind_while_the_application_indexes(
    kafka: str,
    registry_url: str,
    elasticsearch_url: str,
    unique: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    orders = int(os.environ.get(DOCUMENTS, 1_000_000))
    with placed(tmp_path, unique, kafka, registry_url, elasticsearch_url) as place:
        place.run("index", "create", place.name)
        world = IndexerHarness(place, tmp_path, kafka, registry_url)
        try:
            told = prove(world, orders=orders, each=100, rate=2_000, clean_runs=10, share=0.01)
        finally:
            world.close()
        assert place.starts == 1, place.said()
    with capsys.disabled():
        print("", *told, sep="\n")
