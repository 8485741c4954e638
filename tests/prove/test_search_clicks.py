"""A topic of clicks without keys in each of two clusters, of the same name, with the application killed and replayed.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_search_clicks.py
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from include.index.generations.active import read_fed
from include.local.stack import Stack
from include.settings.environment import PROJECT_ROOT
from tests.support.index.click_index import ClickIndexHarness, click_place

if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_search_clicks.py", allow_module_level=True)

pytestmark = pytest.mark.timeout(3600)
KILLS = int(os.environ.get("LYREBIRD_PROVE_KILLS", "4"))
LOST = 25
_WITHIN_S = 600


@pytest.fixture
def places(
    kafka: str, registry_url: str, elasticsearch_url: str, unique: str, tmp_path: Path
) -> Iterator[list[ClickIndexHarness]]:
    """East and west: a Kafka each, the same name of the topic; one registry, one Elasticsearch."""
    other = Stack(tmp_path / "stack", free_ports=True, kafka_login=False)
    shared = {"registry": registry_url, "elasticsearch": elasticsearch_url}
    with ExitStack() as stack:
        stack.callback(other.down)
        brokers = {"east": kafka, "west": other.up(["kafka"])["LYREBIRD_KAFKA"]}
        yield [
            stack.enter_context(
                click_place(tmp_path / side, f"{unique}-{side}", side, unique, {**shared, "kafka": broker})
            )
            for side, broker in brokers.items()
        ]


def killed_at_work(place: ClickIndexHarness, draw: random.Random) -> None:
    """Kill the application once it has written something since its last start, at some moment of its work."""
    before, until_s = place.progress().acked, time.monotonic() + _WITHIN_S
    while place.progress().acked == before:
        assert time.monotonic() < until_s, place.said()
        time.sleep(0.1)
    time.sleep(draw.random())
    place.kill("driver")


def settled(place: ClickIndexHarness) -> dict[str, int]:
    """What became of all records of the topic since its progress began; fails unless each became one thing."""
    counts = place.progress().counts
    total = {
        what: sum(of.get(what, 0) for of in counts.values()) for what in {name for of in counts.values() for name in of}
    }
    assert total["read"] == sum(count for what, count in total.items() if what != "read")
    return total


def each_once(places: list[ClickIndexHarness]) -> None:
    """Every click of both clusters is one document; searched together they are as many as both.

    Both audits name those that cannot be read, and only these.
    """
    for place in places:
        unreadable = place.unreadable()
        right = {"findings": len(unreadable), "behind": 0, "in_flight": 0}
        for mode in ("digest", "bisect"):
            report = place.audit(mode)
            found = {kind: report[kind][:3] for kind in ("extra", "stale", "altered") if report[kind]}
            said = {what: report[what] for what in right}
            assert (said, found) == (right, {}), (report["window"], place.said())
            assert sorted(report["missing"]) == unreadable
    ids = list[str]()
    for place in places:
        for number in read_fed(place.index, place.name):
            numbers, own = place.clicks(f"{place.name}-v{number}")
            assert numbers == place.topic.numbers()
        ids += own
    assert len(set(ids)) == len(ids)
    together = places[0].index.client.count(index=",".join(place.name for place in places)).body["count"]
    assert together == len(ids)


def nightly(place: ClickIndexHarness, folder: Path, mode: str) -> int:
    """Findings of the audit that Airflow runs, on Spark."""
    report = folder / f"{mode}.json"
    line = ["spark_apps/audit_search.py", "--audit", place.name, "--mode", mode, "--report", str(report)]
    subprocess.run([sys.executable, *line], cwd=PROJECT_ROOT, env=place.env, check=True, timeout=600)
    return int(json.loads(report.read_text())["audits"][place.name]["findings"])


def test_each_click_of_two_clusters_is_one_document_through_kills_and_replays_and_audits_mend_what_is_lost(
    places: list[ClickIndexHarness], tmp_path: Path
) -> None:
    draw = random.Random(1)
    for place in places:
        place.run("index", "create", place.name)
        place.topic.write(5000)
        place.start()
    with places[0].topic, places[1].topic:
        for place in places:
            place.await_start()
        for _ in range(KILLS):
            for place in places:
                killed_at_work(place, draw)
    each_once(places)
    assert min(place.starts for place in places) > KILLS
    # From offset 0, and killed on the way: one after the other, as who has read all has nothing more to do.
    for place in places:
        place.kill("driver")
        place.forget_progress()
        killed_at_work(place, draw)
    each_once(places)
    for place in places:
        again = settled(place)
        assert again.get("indexed", 0) == 0
        assert again["stale"] == len(place.topic.numbers())
        assert again["filtered"] > 0
        assert again["dead"] == len(place.unreadable()) > 0
    # Both audits name what is lost, and either mends it.
    for place, mode in zip(places, ("digest", "bisect"), strict=True):
        _, ids = place.clicks(place.name)
        lost, unreadable = draw.sample(ids, LOST), place.unreadable()
        place.lose(lost)
        for each in ("digest", "bisect"):
            report = place.audit(each)
            assert sorted(report["missing"]) == sorted([*lost, *unreadable])
            assert report["findings"] == LOST + len(unreadable)
        mended = place.audit(mode, "--repair")
        assert sorted(mended["repaired"]["left"]) == sorted(mended["missing"]) == unreadable
        assert mended["next_command"] == f"lyrebird index replay-dead {place.name}"
    each_once(places)
    told = len(places[0].unreadable())
    assert [nightly(places[0], tmp_path, mode) for mode in ("digest", "bisect")] == [told, told]
    # Another generation, filled from offset 0 while clicks go on.
    with places[0].topic:
        done = places[0].run("index", "rebuild", places[0].name, "--tasks", "2")
        assert done["proof"]["findings"] == 0
        assert places[0].run("index", "promote", places[0].name)["moved"]
    each_once(places)
