"""A hundred audits of a table under 2,000 changed rows a second: no false alarm; each kind of fault found and mended.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_tables_audit.py

LYREBIRD_PROVE_AUDITS says how many audits, 100 by default (about 40 minutes).
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.audit.merkle.definition import Against
from include.log.running import batches_spark
from tests.support.background import Background
from tests.support.source.capture_harness import opened
from tests.support.tables.audit_scenario import TableAuditScenario, captured, prepare

pytestmark = pytest.mark.prove
if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_tables_audit.py", allow_module_level=True)

AUDITS = int(os.environ.get("LYREBIRD_PROVE_AUDITS", "100"))
A_SECOND = 2_000
ROWS = 20_000
_RUN = 20
SIDES: tuple[Against, ...] = ("topic", "lake")


class Load(Background):
    """Changes rows of `busy`, so many a second: updates of runs of rows, deletes, inserts, moved keys."""

    def __init__(self, scene: TableAuditScenario) -> None:
        super().__init__()
        self._scene, self.rows = scene, 0

    def work(self) -> None:
        threads = [threading.Thread(target=self._write, args=(seed,)) for seed in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _write(self, seed: int) -> None:
        draw, begun_s, mine = random.Random(seed), time.monotonic(), 0
        with self._scene.world.server.connect(database=self._scene.world.name) as connection:
            connection.autocommit(True)
            with connection.cursor() as cursor:
                while not self.over.is_set():
                    # Each has keys of its own, so that none waits for the other.
                    first = draw.randrange(ROWS // _RUN // 2) * 2 * _RUN + seed * _RUN
                    span = f"id >= {first} AND id < {first + _RUN}"
                    what = draw.random()
                    if what < 0.7:
                        mine += cursor.execute(f"UPDATE busy SET n = n + 1, x = MD5(n) WHERE {span}")
                    elif what < 0.8:
                        mine += cursor.execute(f"DELETE FROM busy WHERE {span}")
                    else:
                        numbers = f"seq_{first}_to_{first + _RUN - 1}"
                        mine += cursor.execute(f"REPLACE INTO busy SELECT seq, 0, 'new', NULL, seq / 7 FROM {numbers}")
                    ahead_s = mine / (A_SECOND / 2) - (time.monotonic() - begun_s)
                    if ahead_s > 0:
                        time.sleep(ahead_s)
        self.rows += mine


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = batches_spark.session("proof", {"spark.master": "local[2]", "spark.log.level": "ERROR"})
    yield found
    found.stop()


@pytest.fixture
def scene(
    unique: str, tmp_path: Path, mariadb: Any, kafka: str, registry_url: str, s3: Any, spark: SparkSession
) -> Iterator[TableAuditScenario]:
    with opened(unique, tmp_path, mariadb, kafka, registry_url) as world:
        prepare(world, unique, tmp_path, s3)
        world.sql(
            f"CREATE TABLE {unique}.busy (id int PRIMARY KEY, n int NOT NULL, x varchar(40), y varchar(40), d double)",
            f"INSERT INTO {unique}.busy SELECT seq, 0, CONCAT('row ', seq), 'y', seq / 7 FROM seq_0_to_{ROWS - 1}",
            f"CREATE TABLE {unique}.quiet (id int PRIMARY KEY, n int, x varchar(40), y varchar(40), d double)",
            f"INSERT INTO {unique}.quiet SELECT seq, seq % 10, CONCAT('x', seq), IF(seq % 3, 'y', NULL), seq / 7 "
            "FROM seq_1_to_2000",
            f"UPDATE {unique}.quiet SET x = 'a#', y = 'b' WHERE id = 15",
        )
        world.more += ["busy", "quiet"]
        with captured(world):
            yield TableAuditScenario(world, spark)


@pytest.mark.timeout(7200)
def test_no_audit_under_load_gives_a_false_alarm(
    scene: TableAuditScenario, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with scene.lake(monkeypatch):
        scene.world.wait(lambda: scene.audit("busy", "lake").error == "", 180)
        begun_s = time.monotonic()
        with Load(scene) as load:
            for number in range(AUDITS):
                against = SIDES[number % 2]
                report = scene.audit("busy", against, range_rows=2_000, patience_s=120)
                assert report.verdict == "clean", (number, report.lines())
                with capsys.disabled():
                    print(
                        f"{number + 1} of {AUDITS}: {against}, {report.took_s:.1f} s, {report.rows:,} rows", flush=True
                    )
        took_s = time.monotonic() - begun_s
    with capsys.disabled():
        print(f"{load.rows:,} rows changed in {took_s:.0f} s: {load.rows / took_s:,.0f} a second", flush=True)


@pytest.mark.timeout(1800)
def test_each_kind_of_fault_is_found_with_key_and_column_and_mended(
    scene: TableAuditScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = scene.world.name
    scene.world.sql(f"UPDATE {name}.quiet SET x = 'newer' WHERE id = 1000")
    with scene.lake(monkeypatch):
        scene.until_labelled()
        for against in SIDES:
            scene.world.wait(partial(_clean, scene, against), 120)
            faults = _planted(scene, against)
            report = scene.audit("quiet", against)
            assert {(e.kind, e.key["id"], tuple(e.columns)) for e in report.found} == faults, report.lines()
            mended = scene.audit("quiet", against, repair=f"mend-{against}")
            assert mended.verdict == "clean", mended.lines()
            assert scene.audit("quiet", against).verdict == "clean"


def _clean(scene: TableAuditScenario, against: Against) -> bool:
    return scene.audit("quiet", against).verdict == "clean"


def _planted(scene: TableAuditScenario, against: Against) -> set[tuple[str, str, tuple[str, ...]]]:
    """Faults of every kind, each behind the log; what an audit has to name."""
    bulk = [str(number) for number in range(1, 2001) if number % 10 == 3]
    last_bit = math.nextafter(700 / 7, math.inf) if against == "topic" else math.nextafter(700 / 7, -math.inf)
    lost, shifted = f"lost {against}", "30" if against == "topic" else "36"
    scene.behind_the_log(
        f"UPDATE quiet SET x = '{lost}' WHERE id = 7",
        "UPDATE quiet SET n = n + 1 WHERE id % 10 = 3",
        "UPDATE quiet SET x = IF(x = 'x11', 'x12', 'x11') WHERE id IN (11, 12)",
        f"UPDATE quiet SET y = x, x = NULL WHERE id = {shifted}",
        "UPDATE quiet SET x = IF(x = 'a#', 'a', 'a#'), y = IF(y = 'b', '#b', 'b') WHERE id = 15",
        f"UPDATE quiet SET d = {last_bit!r} WHERE id = 700",
        f"DELETE FROM quiet WHERE id = {20 if against == 'topic' else 21}",
        f"INSERT INTO quiet VALUES ({5000 if against == 'topic' else 5001}, 1, 'x', 'y', 1)",
    )
    found = {
        ("altered", "7", ("x",)),
        *(("altered", each, ("n",)) for each in bulk),
        ("altered", "11", ("x",)),
        ("altered", "12", ("x",)),
        ("altered", shifted, ("x", "y")),
        ("altered", "15", ("x", "y")),
        ("altered", "700", ("d",)),
        ("extra", "20" if against == "topic" else "21", ()),
        ("missing", "5000" if against == "topic" else "5001", ()),
    }
    if against == "lake":
        scene.edit_lake("quiet", "x", 1000, "x1000")
        found.add(("stale", "1000", ("x",)))
    return found
