"""A real shop, captured and assembled by processes that are killed: every version of every document is proved."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

from demo.shop.generator import Shop
from tests.support.documents.replay_oracle import History
from tests.support.documents.shop import IN_PLACE, WITHOUT_SPARK, document_shop
from tests.support.documents.shop_oracle import join

KILLS = 2


def test_every_version_is_a_state_that_the_shop_had_though_the_assembler_is_killed(
    unique: str, mariadb: Any, kafka: str, registry_url: str, tmp_path: Path
) -> None:
    rng = random.Random(5)
    with document_shop(unique, mariadb, kafka, registry_url, tmp_path) as place:
        with Shop(place.server.connect, 11, writers=2, pace_s=0.4) as shop:
            shop.prepare()
            place.capture()
            selling = threading.Thread(target=shop.run, args=(25,))
            selling.start()
            place.assemble(WITHOUT_SPARK)
            try:
                for _ in range(KILLS):
                    place.wait(place.wrote_more())
                    time.sleep(rng.uniform(0, 0.7))
                    place.kill()
            finally:
                shop.stop()
                selling.join()
            shop.quiesce()
        place.sql(*IN_PLACE)
        place.wait(place.complete)
        written = place.log.written()
        history = History(place.log.transactions(), join, ("orders", "order_id"), place.log.resolved())
        assert history.faults(written) == []
        shown = {each.key: each.body for each in written}
        assert {key: body for key, body in shown.items() if body is not None} == place.truth()
        assert sum(body is None for body in shown.values()) == 2, "one deleted, one moved away"
        assert len(written) > len(shown) > 50
        asked = place.command("rebuild", "--wait", "40", "--json")
        assert (asked["state"], asked["done"]) == ("done", len(place.truth()))
        status = place.command("status", "--json")
        assert [each["topic"] for each in status["documents"]] == [status["topic"]] == [place.topic]
        assert (status["state"], status["requests"], status["uncovered"]) == ("started", [], [])
        assert status["read"]["rows_per_s"] == 100_000
        place.sql("SET FOREIGN_KEY_CHECKS = 0", "TRUNCATE orders")
        place.wait(lambda: not any(each.body for each in place.newest().values()))
