"""Both search audits over a million documents with planted faults and writes going on; a sample is in integration."""

from __future__ import annotations

import os

import pytest

from tests.audit_proof import RealWorld, prove
from tests.servers.fixture import PROVE

DOCUMENTS = "LYREBIRD_PROVE_DOCUMENTS"

pytestmark = pytest.mark.skipif(PROVE not in os.environ, reason=f"takes minutes: set {PROVE}=1")


def test_a_million_documents_with_a_hundred_faults_of_each_kind(
    elasticsearch_url: str, unique: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world = RealWorld(elasticsearch_url, unique)
    try:
        orders = int(os.environ.get(DOCUMENTS, 1_000_000))
        told = prove(world, orders=orders, each=100, rate=2_000, clean_runs=10, share=0.01)
    finally:
        world.close()
    with capsys.disabled():
        print("", *told, sep="\n")
