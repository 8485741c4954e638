"""A dozen of the runs of `tests/prove/test_lake_kills.py`, and what its verifier finds when something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.kills.conductor import Conductor
from tests.support.kills.kafka_reader import Ran
from tests.support.kills.on_spark import run_on_spark
from tests.support.kills.scenarios import dozen, on_spark
from tests.support.kills.verifier import Verdict, verify
from tests.support.kills.versioned_s3 import BUCKET, Versioned, versioned

AT_ONCE = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versioned]:
    with versioned(tmp_path_factory.mktemp("versioned")) as found:
        yield found


Verify = Callable[[list[Ran]], Verdict]


@pytest.mark.timeout(900)
def test_killed_and_stopped_hosts_leave_every_offset_once(
    spark: SparkSession, kafka: str, server: Versioned, tmp_path: Path, unique: str
) -> None:
    conductor = Conductor(kafka, server, tmp_path, unique)
    client = server.client()
    runs = conductor.run_all(dozen(), AT_ONCE)
    runs += [run_on_spark(spark, conductor, on_spark()[2])]

    looks = iter(range(10))

    def verified(some: list[Ran]) -> Verdict:
        folder = tmp_path / f"objects-{next(looks)}"
        folder.mkdir()
        return verify(spark, client, BUCKET, some, folder)

    verdict = verified(runs)
    assert verdict.faults == {}
    assert verdict.runs == len(dozen()) + 1
    assert verdict.records > 1000
    assert verdict.objects > 50
    _planted(client, runs, verified)
    client.close()


def _planted(client: Any, runs: list[Ran], verified: Verify) -> None:
    """Nothing is wrong because the verifier looks at it: each fault of the bucket or the log is found."""
    backup, parsed, third = runs[0], runs[6], runs[7]
    records = backup.logged[0]
    offset, changed = next(iter(records.items()))
    more = {**records, offset: changed._replace(whole="other"), max(records) + 1: changed}
    found = verified([replace(backup, logged={**backup.logged, 0: more})])
    assert found.faults[backup.name] == [
        f"offset {(0, max(records) + 1)} is missing",
        f"offset {(0, offset)} is not as it was written",
    ]
    less = {at: each for at, each in records.items() if at != offset}
    found = verified([replace(backup, logged={**backup.logged, 0: less})])
    assert found.faults[backup.name] == [f"offset {(0, offset)} is none that Kafka has"]
    keys = [
        each["Key"]
        for run in (backup, parsed, third)
        for each in client.list_objects_v2(Bucket=BUCKET, Prefix=f"{run.prefix}/{run.topic}/")["Contents"][:1]
    ]
    body = client.get_object(Bucket=BUCKET, Key=keys[0])["Body"].read()
    client.put_object(Bucket=BUCKET, Key=keys[0], Body=body)
    client.delete_object(Bucket=BUCKET, Key=keys[1])
    client.put_object(Bucket=BUCKET, Key=f"{keys[2]}0", Body=b"")
    doubled, lost, odd = (verified([run]).faults[run.name] for run in (backup, parsed, third))
    assert doubled == [f"{keys[0]} has 2 versions"]
    assert f"{keys[1]} was deleted" in lost
    assert any("is not there" in each for each in lost)
    assert any("is missing" in each for each in lost)
    assert odd == [f"{keys[2]}0 is no name of the lake"]
