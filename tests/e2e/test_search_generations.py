"""An index made again while the shop goes on: beside the one that serves, and after that one was lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from elasticsearch import Elasticsearch, NotFoundError
from typing_extensions import override

from demo.comparison import DemoComparison, compare
from demo.shop.truth import truth
from include.index.metadata import LIVING
from tests.support.background import Background
from tests.support.servers.addresses import elasticsearch_url

pytestmark = pytest.mark.timeout(1800)

ALIAS, APPLICATION = "orders", "index_orders"
RATE = 4
WITHIN_S = 120


class Readers(Background):
    """Look all the time where the alias leads and what it answers; `ways` are the different answers, in order."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.ways: list[tuple[str, ...]] = []
        self.asked, self.fewest = 0, 1 << 62
        self._client = Elasticsearch(url, request_timeout=10)

    @override
    def work(self) -> None:
        with self._client:
            while not self.over.wait(0.02):
                leads = tuple(sorted(self._client.indices.get_alias(name=ALIAS)))
                self.fewest = min(self.fewest, self._client.count(index=ALIAS)["count"])
                self.asked += 1
                if not self.ways or self.ways[-1] != leads:
                    self.ways.append(leads)


@pytest.fixture
def server(platform: Any) -> Iterator[Elasticsearch]:
    with Elasticsearch(elasticsearch_url(platform.env), request_timeout=30) as client:
        yield client


def serving(server: Elasticsearch) -> str | None:
    try:
        (name,) = server.indices.get_alias(name=ALIAS)
    except NotFoundError:
        return None
    return str(name)


def generations(platform: Any) -> dict[str, str]:
    found = platform.told("index", "generations", ALIAS)["generations"]
    return {each["index"]: each["state"] for each in found}


def compared(platform: Any, server: Elasticsearch, name: str) -> DemoComparison:
    """The shop's truth with one generation, whether readers have it or not."""
    hits = server.search(index=name, query=LIVING, size=10_000)["hits"]["hits"]
    bodies = [hit["_source"]["order"] for hit in hits]
    connection = platform.shop_server.connect()
    try:
        return compare(truth(connection), {body["order_id"]: body for body in bodies})
    finally:
        connection.close()


def await_equal(platform: Any, server: Elasticsearch, eventually: Any, *names: str) -> None:
    for name in names:
        eventually(f"{name} is the truth", lambda n=name: compared(platform, server, n).equal, WITHIN_S)
    result = platform.compare()
    assert result.equal, result.explain()


def test_a_generation_is_rebuilt_promoted_and_rolled_back_by_the_dags_while_the_shop_goes_on(
    platform: Any, server: Elasticsearch, eventually: Any
) -> None:
    old = serving(server)
    assert old is not None
    new = f"{ALIAS}-v{int(old.rpartition('v')[2]) + 1}"
    with platform.ordering(RATE) as shop, Readers(elasticsearch_url(platform.env)) as readers:
        platform.succeed("index_rebuild", {"index": ALIAS, "dry_run": True})
        assert generations(platform) == {old: "serving"}
        run = platform.succeed("index_rebuild", {"index": ALIAS})
        assert "equal" in platform.airflow.log("index_rebuild", run, "fill")
        assert generations(platform) == {old: "serving", new: "fed"}
        assert readers.ways == [(old,)]

        run = platform.succeed("index_promote", {"index": ALIAS})
        assert f"{new} is fit for readers of {ALIAS}" in platform.airflow.log("index_promote", run, "prove")
        assert generations(platform) == {old: "fed", new: "serving"}
        placed = shop.counts.placed
        eventually("more orders pass", lambda: shop.counts.placed > placed + 20, 60)
        platform.succeed("index_promote", {"index": ALIAS, "generation": int(old.rpartition("v")[2])})
        assert generations(platform) == {old: "serving", new: "fed"}
        # Each move in one stroke: nobody saw none or two.
        assert readers.ways == [(old,), (new,), (old,)]
        assert readers.asked > 100
        assert readers.fewest > 0
    await_equal(platform, server, eventually, old, new)
    platform.succeed("index_promote", {"index": ALIAS, "generation": int(new.rpartition("v")[2])})
    assert serving(server) == new
    # Nobody needs it any more; the application goes on without it.
    platform.told("index", "drop", ALIAS, "--generation", old.rpartition("v")[2], "--yes")
    with platform.ordering(RATE) as shop:
        eventually("orders pass", lambda: shop.counts.placed > 20, 60)
    await_equal(platform, server, eventually, new)
    assert generations(platform) == {new: "serving"}


def test_an_index_that_is_lost_under_load_is_told_once_and_made_again_from_its_topic(
    platform: Any, server: Elasticsearch, eventually: Any
) -> None:
    lost = serving(server)
    assert lost is not None
    with platform.ordering(RATE) as shop:
        eventually("orders pass", lambda: shop.counts.placed > 20, 60)
        server.indices.delete(index=lost)
        report = eventually("the application says what it waits for", lambda: waiting(platform), WITHIN_S)
        assert "index was lost" in report["waiting"]
        assert lost in report["waiting"]
        mail = eventually("it is mailed", lambda: platform.mails("INCIDENT lost", lost), WITHIN_S)
        assert f"lyrebird index rebuild {ALIAS}" in mail[0]["html"]
        # Readers have the database meanwhile.
        user = shop_user(platform)
        assert platform.told("search", "user", str(user))["seen"]["origin"] == "mysql"

        platform.succeed("index_rebuild", {"index": ALIAS})
        assert serving(server) is None
        platform.succeed("index_promote", {"index": ALIAS})
        made = serving(server)
        assert made not in (None, lost)
        placed = shop.counts.placed
        eventually("more orders pass", lambda: shop.counts.placed > placed + 20, 60)
    await_equal(platform, server, eventually, made or "")
    assert platform.told("audit", "search", "assembled_order", "--wait", "60")["clean"]
    assert len(platform.mails("INCIDENT lost", lost)) == 1
    assert "waiting" not in platform.run_folder(APPLICATION, "progress.json")


def waiting(platform: Any) -> dict[str, Any] | None:
    report: dict[str, Any] = platform.run_folder(APPLICATION, "progress.json")
    return report if report.get("waiting") else None


def shop_user(platform: Any) -> int:
    """One who has ordered."""
    connection = platform.shop_server.connect()
    try:
        return int(next(iter(truth(connection)))["user_id"])
    finally:
        connection.close()
