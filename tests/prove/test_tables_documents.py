"""Ten audits of a shop's documents under load, while the assembler is killed now and then: no false alarm.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_tables_documents.py
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from demo.shop.generator import Shop
from include.log.running import batches_spark
from tests.support.documents.documents_audit import audit, place
from tests.support.documents.shop import WITHOUT_SPARK, DocumentShop

__all__ = ["place"]

pytestmark = pytest.mark.prove
if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_tables_documents.py", allow_module_level=True)

AUDITS = 10
_SEED = 20


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = batches_spark.session("proof", {"spark.master": "local[2]", "spark.log.level": "ERROR"})
    yield found
    found.stop()


@pytest.mark.timeout(1500)
def test_ten_audits_under_load_give_no_alarm(place: DocumentShop, spark: SparkSession) -> None:
    draw = random.Random(_SEED)
    with Shop(place.server.connect, _SEED, writers=3, pace_s=0.02) as shop:
        shop.prepare()
        place.capture()
        place.assemble(WITHOUT_SPARK)
        selling = threading.Thread(target=shop.run, args=(20,))
        selling.start()
        looked: list[dict[str, Any]] = []
        try:
            place.wait(place.wrote_more())
            place.wait(lambda: len(place.newest()) > 50)
            for number in range(AUDITS):
                if draw.random() < 0.3:
                    place.kill()
                report = audit(place, spark)
                looked.append({"documents": report.documents, "again": report.looked_again, "unsure": report.unsure})
                print(f"audit {number + 1} of {AUDITS}: {looked[-1]}", flush=True)
                assert report.found == [], report.lines()
        finally:
            shop.stop()
            selling.join()
        shop.quiesce()
    assert sum(each["again"] for each in looked) > 0, "nothing was changed while they looked"
    place.wait(place.complete)
    report = audit(place, spark)
    assert report.verdict == "clean", report.lines()
    assert report.documents == len(place.truth())
