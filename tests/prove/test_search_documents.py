"""The assembler in Spark, killed again and again under a shop with all that happens to orders, on real servers."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.shop.generator import Shop
from tests.support.documents.replay_oracle import History
from tests.support.documents.shop import IN_PLACE, SPARK, WITHOUT_SPARK, DocumentShop, document_shop
from tests.support.documents.shop_oracle import join
from tests.support.servers.fixture import PROVE

PATIENCE_S = 420
"""A start of Spark takes minutes where others have the cores."""

pytestmark = pytest.mark.skipif(
    PROVE not in os.environ, reason=f"takes minutes: {PROVE}=1 pytest tests/prove/test_search_documents.py"
)


@pytest.fixture
def place(unique: str, mariadb: Any, kafka: str, registry_url: str, tmp_path: Path) -> Iterator[DocumentShop]:
    with document_shop(unique, mariadb, kafka, registry_url, tmp_path) as made:
        yield made


def proved(place: DocumentShop) -> tuple[int, int]:
    """Numbers of transactions and of documents' versions; fails unless each version is right, and the newest are now.

    Raises:
        AssertionError: with the first faults.
    """
    written, transactions = place.log.written(), place.log.transactions()
    history = History(transactions, join, ("orders", "order_id"), place.log.resolved())
    faults = history.faults(written)
    assert faults == [], faults[:3]
    shown = {each.key: each.body for each in written}
    assert {key: body for key, body in shown.items() if body is not None} == place.truth()
    return len(transactions), len(written)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("how", "kills", "rate"), [(WITHOUT_SPARK, 20, 40), (SPARK, 6, 20)], ids=["batches", "spark"])
def test_every_version_of_every_document_is_a_state_that_the_shop_had(
    place: DocumentShop, how: tuple[str, ...], kills: int, rate: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(1)
    with Shop(place.server.connect, 3, writers=4, pace_s=1.0) as shop:
        shop.prepare()
        place.capture()
        selling = threading.Thread(target=shop.run, args=(rate,))
        selling.start()
        place.assemble(how)
        try:
            for _ in range(kills):
                place.wait(place.wrote_more(), PATIENCE_S)
                time.sleep(rng.uniform(0, 2))
                place.kill()
        finally:
            shop.stop()
            selling.join()
        shop.quiesce()
    place.sql(*IN_PLACE)
    place.wait(place.complete, PATIENCE_S)
    transactions, versions = proved(place)
    with capsys.disabled():
        print(f"\n{versions} versions of documents proved against {transactions} transactions, {place.kills} kills")
    assert place.kills == kills
    place.sql("SET FOREIGN_KEY_CHECKS = 0", "TRUNCATE orders")
    place.wait(lambda: not any(each.body for each in place.newest().values()), PATIENCE_S)


@pytest.mark.timeout(600)
def test_a_dropped_fact_table_leaves_tombstones_and_its_successor_documents(place: DocumentShop) -> None:
    with Shop(place.server.connect, 4, writers=2, pace_s=0.01) as shop:
        shop.prepare()
        place.capture()
        place.assemble(WITHOUT_SPARK)
        shop.run(500, orders=30)
        shop.quiesce()
    place.wait(place.complete, PATIENCE_S)
    assert len(place.truth()) == 30
    place.sql("CREATE TABLE kept LIKE orders", "INSERT INTO kept SELECT * FROM orders")
    place.sql("SET FOREIGN_KEY_CHECKS = 0", "DROP TABLE orders")
    place.wait(lambda: not any(each.body for each in place.newest().values()), PATIENCE_S)
    place.sql("RENAME TABLE kept TO orders")
    expected = place.truth()
    place.wait(lambda: {each.key: each.body for each in place.newest().values()} == expected, PATIENCE_S)
