"""An index replaced, an index lost, and the application killed part by part, while its topic is written.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_search_recovery.py
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from include.index.generations.active import read_fed
from include.index.outcome import SETTLED
from include.log.kafka.log import KafkaReader
from tests.support.index.recovery_harness import IndexRecoveryHarness, Part, Reader, Writing, placed

if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_search_recovery.py", allow_module_level=True)

pytestmark = pytest.mark.timeout(1200)
KEYS = 4000
A_SECOND = 100
KILLS = 3
PARTS: tuple[Part, ...] = ("driver", "jvm", "worker")
WITHIN_S = 240


@pytest.fixture
def place(
    kafka: str, registry_url: str, elasticsearch_url: str, unique: str, tmp_path: Path
) -> Iterator[IndexRecoveryHarness]:
    with placed(tmp_path, unique, kafka, registry_url, elasticsearch_url) as made:
        yield made


def audited(place: IndexRecoveryHarness) -> dict[str, Any]:
    """The report of an audit that waited for the application; fails unless it is clean."""
    report: dict[str, Any] = place.run("audit", "search", place.name, "--wait", "120")
    assert report["findings"] == 0, report
    return report


def whole(place: IndexRecoveryHarness, writing: Writing) -> None:
    """Each fed generation holds what was written, and nothing else."""
    assert audited(place)["behind"] == 0
    for number in read_fed(place.index, place.name):
        until_s = time.monotonic() + 60
        while place.documents(f"{place.name}-v{number}") != writing.model and time.monotonic() < until_s:
            time.sleep(0.5)
        assert place.documents(f"{place.name}-v{number}") == writing.model, number


def test_a_generation_is_rebuilt_through_kills_promoted_and_rolled_back_while_readers_read(
    place: IndexRecoveryHarness,
) -> None:
    place.run("index", "create", place.name)
    place.start()
    writing = Writing(place.topic, KEYS, A_SECOND)
    place.await_start()
    audited(place)
    with writing, Reader(place.index, place.name) as reader:
        for number in range(KILLS):
            child = place.command("index", "rebuild", place.name, "--tasks", "2", "--json")
            time.sleep(3 + 2 * number)
            child.kill()
            child.communicate(timeout=30)
        done = place.run("index", "rebuild", place.name, "--tasks", "2")
        assert (done["rebuilt"]["generation"], done["proof"]["findings"]) == (2, 0)
        assert place.serving() == f"{place.name}-v1"
        assert place.run("index", "promote", place.name)["moved"]
        assert place.serving() == f"{place.name}-v2"
        audited(place)
        assert place.run("index", "promote", place.name, "--generation", "1")["moved"]
        assert place.serving() == f"{place.name}-v1"
        assert place.run("index", "promote", place.name, "--generation", "2")["moved"]
    assert reader.asked > 100
    assert reader.failures == []
    whole(place, writing)
    assert read_fed(place.index, place.name) == (1, 2)
    place.run("index", "drop", place.name, "--generation", "1", "--yes")
    with writing:
        time.sleep(3)
    whole(place, writing)
    assert read_fed(place.index, place.name) == (2,)


def test_an_index_that_is_deleted_under_load_is_made_again_from_its_topic_and_nothing_is_lost(
    place: IndexRecoveryHarness,
) -> None:
    place.run("index", "create", place.name)
    place.start()
    writing = Writing(place.topic, KEYS, A_SECOND)
    place.await_start()
    audited(place)
    with writing:
        assert place.admin.delete(f"{place.name}-v1")
        time.sleep(3)
        # The application has to be started again meanwhile, on whatever machine this is.
        done = place.run("index", "rebuild", place.name, "--tasks", "2", "--within", "300")
        assert (done["rebuilt"]["serving"], done["proof"]["findings"]) == (None, 0)
        assert place.run("index", "promote", place.name)["before"] is None
        time.sleep(3)
        audited(place)
    whole(place, writing)
    assert read_fed(place.index, place.name) == (2,)


@pytest.mark.timeout(2400)
def test_an_application_whose_parts_are_killed_at_any_moment_loses_nothing_and_counts_each_record_once(
    place: IndexRecoveryHarness, kafka: str
) -> None:
    place.run("index", "create", place.name)
    place.start()
    writing, draw = Writing(place.topic, KEYS, A_SECOND), random.Random(1)
    place.await_start()
    with writing:
        for part in PARTS * KILLS:
            time.sleep(draw.uniform(0, 2))
            place.kill(part)
            before = place.progress().acked
            until_s = time.monotonic() + WITHIN_S
            while place.progress().acked == before and time.monotonic() < until_s:
                time.sleep(0.2)
            assert place.progress().acked != before, place.said()
    whole(place, writing)
    reader = KafkaReader(kafka)
    counts = place.progress().counts
    for p, end in reader.end_offsets(place.topic.name).items():
        assert counts[p]["read"] == sum(counts[p][name] for name in SETTLED)
        assert counts[p]["read"] == sum(1 for _ in reader.read(place.topic.name, p, 0, end))
    reader.close()
    print(f"{len(PARTS) * KILLS} kills, {place.starts} starts, {sum(of['read'] for of in counts.values()):,} records")
