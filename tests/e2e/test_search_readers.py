"""Readers of the running platform: a dark launch with planted differences; own writes while indexing stands still."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from elasticsearch import Elasticsearch

from demo.shop.truth import truth
from include.cli.search.options import target_named
from include.clock import SystemClock
from include.search.connect import database_of_search
from include.search.dark_launch.stores import drawn_questions
from supervision.run_folder import RunFolder
from tests.support.servers.addresses import elasticsearch_url

pytestmark = pytest.mark.timeout(1800)

INDEXING, APPLICATION = "stream_index_orders", "index_orders"
EXTRA = 990_002
"""An order that the shop has not."""
WITHIN_S = 120


def told(platform: Any) -> dict[int, dict[str, Any]]:
    """Each order as the shop says, by its id."""
    connection = platform.shop_server.connect()
    try:
        return {body["order_id"]: body for body in truth(connection)}
    finally:
        connection.close()


def newest_of(orders: dict[int, dict[str, Any]], user: int) -> list[dict[str, Any]]:
    own = [body for body in orders.values() if body["user_id"] == user]
    return sorted(own, key=lambda body: (body["created_at"], str(body["order_id"])), reverse=True)


def dark_launch(platform: Any, page: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Its exit code and report."""
    done = platform.lyrebird("search", "dark-launch", "--json", "--html", str(page), *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def asked_for(samples: int, seed: int) -> set[int]:
    """The users that it asks for while the shop is quiet."""
    deployment, target = target_named(None)
    database = database_of_search(deployment, target, SystemClock())
    assert database is not None
    try:
        return {int(each.value) for each in drawn_questions(database, 1, samples, random.Random(seed))}
    finally:
        database.close()


def test_a_dark_launch_tells_lag_from_differences_and_advises_to_switch_once_they_are_mended(
    platform: Any, eventually: Any, tmp_path: Path
) -> None:
    page = tmp_path / "dark.html"
    asked = ("--samples", "200", "--per-s", "20", "--size", "50")
    # While orders come in the index lags, and is right.
    with platform.ordering(rate=10) as shop:
        eventually("orders pass", lambda: shop.counts.placed > 50, 60)
        code, report = dark_launch(platform, page, *asked)
    assert (code, report["advice"]["switch"]) == (0, True), report
    assert report["outcomes"]["equal"] + report["outcomes"].get("lag", 0) == 200

    result = platform.wait_until_equal(within_s=WITHIN_S)
    assert result.equal, result.explain()
    users = asked_for(200, seed=1)
    newest: dict[int, int] = {body["user_id"]: order for order, body in told(platform).items()}
    altered, gone, other = [newest[user] for user in sorted(users & newest.keys())[:3]]
    with Elasticsearch(elasticsearch_url(platform.env)) as server:
        by_order = {order: of(server, order) for order in (altered, gone, other)}
        index = by_order[altered]["_index"]
        body = by_order[altered]["_source"]["order"]
        body["lines"][0]["quantity"] += 90
        server.index(index=index, id=str(altered), document=by_order[altered]["_source"])
        server.delete(index=index, id=str(gone))
        source = by_order[other]["_source"]
        extra = {
            "order": {**source["order"], "order_id": EXTRA},
            "metadata": {**source["metadata"], "doc_id": str(EXTRA)},
        }
        server.index(index=index, id=str(EXTRA), document=extra, refresh=True)
    code, report = dark_launch(platform, page, *asked)
    assert (code, report["advice"]["switch"]) == (1, False), report
    assert set(report["found"]) == {"field lines.quantity", "missing", "extra"}
    found = {each["name"]: each["doc_id"] for each in report["examples"]}
    assert found == {"field lines.quantity": str(altered), "missing": str(gone), "extra": str(EXTRA)}
    assert all(name in page.read_text() for name in ("Do not switch", "lines.quantity", str(gone), str(EXTRA)))

    repaired = platform.lyrebird("audit", "search", "assembled_order", "--scrub", "all", "--repair", "--json")
    assert repaired.returncode == 0, (repaired.stdout, repaired.stderr)
    code, report = dark_launch(platform, page, *asked)
    assert (code, report["outcomes"]) == (0, report["outcomes"] | {"equal": 200}), report
    assert platform.compare().equal


def of(server: Elasticsearch, order: int) -> dict[str, Any]:
    query = {"term": {"metadata.doc_id": str(order)}}
    (hit,) = server.search(index="orders", query=query)["hits"]["hits"]
    return dict(hit)


def test_own_writes_are_read_while_indexing_stands_still(platform: Any, eventually: Any) -> None:
    run = platform.airflow.running(INDEXING)
    platform.airflow._call("PATCH", f"/api/v2/dags/{INDEXING}/dagRuns/{run}", json={"state": "success"})
    folder = RunFolder(platform.state / "run" / APPLICATION)
    eventually("indexing stands still", lambda: not folder.held(), WITHIN_S)
    try:
        before = told(platform)
        with platform.ordering(rate=10) as shop:
            eventually("orders pass", lambda: shop.counts.placed > 20, 60)
        orders, written = told(platform), position(platform)
        new = sorted(orders.keys() - before.keys())[-3:]
        assert len(new) == 3
        for order in new:
            body = orders[order]
            assert platform.lyrebird("search", "order", str(order)).returncode == 1
            found = platform.told("search", "order", str(order), "--written", written)
            assert (found["order"], found["seen"]["origin"], found["seen"]["fresh"]) == (body, "mysql", True)
            user, mine = str(body["user_id"]), newest_of(orders, body["user_id"])
            for known in (("--written", written), ("--latest", str(mine[0]["order_id"]))):
                listed = platform.told("search", "user", user, "--size", "1000", *known)
                assert [hit["body"] for hit in listed["hits"]] == mine
                assert (listed["seen"]["origin"], listed["seen"]["fresh"]) == ("index+mysql", True)
    finally:
        platform.airflow.trigger(INDEXING)
    # It goes on: the database is left alone again.
    eventually(
        "the index has them",
        lambda: platform.told("search", "order", str(new[0]), "--written", written)["seen"]["origin"] == "index",
        WITHIN_S,
    )
    result = platform.wait_until_equal(within_s=WITHIN_S)
    assert result.equal, result.explain()


def position(platform: Any) -> str:
    """The server's, after the shop's last write."""
    connection = platform.shop_server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@global.gtid_binlog_pos")
            return str(cursor.fetchone()[0])
    finally:
        connection.close()
