"""The offline detector in Spark with a real log, registry and object store: what it writes is what a replay gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.eventtime.committed import day_of
from include.eventtime.jobs.offline import Offline
from include.eventtime.replay import ElementLine, IdleNotice, JobReplay, ReplayLine, replay
from include.eventtime.rerun.report import ReplayReport
from include.eventtime.rerun.rerun_spark import replay_file, shown_by, verify
from include.log import topics
from include.record.version import from_headers, to_header
from include.settings.connections import Registry
from include.settings.deployment import Deployment
from tests.support.application_process import ApplicationProcess
from tests.support.eventtime.device_tracks import DeviceTracksHarness
from tests.support.eventtime.job_harness import assert_equal


@pytest.fixture
def world(unique: str, kafka: str, registry_url: str, s3: Any, tmp_path: Path) -> Iterator[DeviceTracksHarness]:
    made = DeviceTracksHarness(unique, kafka, registry_url, s3, tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(600)
def test_live_over_kills_and_idle_partitions_it_writes_what_a_replay_gives_byte_for_byte(
    world: DeviceTracksHarness, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.send(300)
    process = ApplicationProcess(world.application, world.folder, script="spark_apps/process_events.py")
    try:
        world.wait(world.is_read, lambda: process.alive)
        for kill, partitions in ((process.kill_worker, (0, 1, 2, 3)), (process.kill, (0, 1)), (process.kill, (0, 3))):
            for _ in range(3):
                world.send(60, partitions)
            kill()
            world.send(60, partitions)
            process.revived()
            world.wait(world.is_read, process.revived)
        assert process.stop() == 0, process.tail()
    finally:
        process.kill()
    expected, made = world.expected()
    written = world.written()
    assert_equal(written, expected)
    assert len(written) > 100
    late = world.late()
    assert len(late) == len(made.late) >= world.planted_late > 0
    assert any(True for _ in world.records(topics.idle(world.tracks, world.application)))
    assert made.failed == []
    monkeypatch.setenv("LYREBIRD_STATE", str(world.folder / "another-host"))
    assert_a_day_is_replayed(world, spark)


def assert_a_day_is_replayed(world: DeviceTracksHarness, spark: SparkSession) -> None:
    """From its savepoint, on a host that has nothing; then with an output that no live run wrote."""
    deployment, day, told = Deployment.load(world.folder, {}), day_of(world.midnight), list[int]()

    def verified(which: str = day) -> ReplayReport:
        return verify(spark, deployment, "job", which, lambda _begin, watermark, _end: told.append(watermark))

    before = set(world.admin.names())
    report, whole = verified(), verified(day_of(world.midnight - 1))
    assert (report.clean, whole.clean) == (True, True), [*report.lines(None), *whole.lines(None)]
    assert report.comparison.live > 30
    assert whole.until == report.after > world.midnight
    assert report.comparison.live + whole.comparison.live == len(world.written())
    assert told[-1] >= whole.until
    assert set(world.admin.names()) == before
    forged = [*world.records(f"{world.name}.events")][-1]
    world.writer.begin()
    headers = (to_header(from_headers(forged.headers) + 1), *forged.headers[1:])
    world.writer.append(f"{world.name}.events", forged.key, forged.value, headers=headers)
    world.writer.commit()
    report = verified()
    assert report.comparison.found == {"missing": 1}
    said = report.to_json(shown_by(deployment.one("registry", Registry)))
    assert said["first"]["live"]["status"] in ("offline", "online")
    assert said["first"]["key"]["device"].startswith("s")
    assert any(".replay-" in name for name in world.admin.names())


@pytest.mark.timeout(180)
def test_a_file_gives_through_the_platform_what_it_gives_without(
    world: DeviceTracksHarness, spark: SparkSession
) -> None:
    lines = made_lines(400)
    process = Offline(Offline.settings_type.model_validate({"timeout": "5m"}))
    expected, told = replay(process, lines, bound_us=5_000_000), list[int]()
    assert len(expected.emitted) > 100
    assert len(expected.late) > 10
    state = world.folder / "another-host"
    made = replay_file(spark, world.deployment, state, process, lines, told.append, bound_us=5_000_000, batch=150)
    assert told[-1] == made.watermark == expected.watermark
    assert len(told) >= 3
    assert shown(made) == shown(expected)


def made_lines(count: int) -> list[ReplayLine]:
    """Tracks of a few devices over three partitions, some of them too late; a fourth one is idle."""
    draw, lines, at = random.Random(5), list[ReplayLine](), 1_700_000_000_000_000
    for number in range(count):
        at += draw.randrange(40_000_000)
        back_us = 300_000_000 if draw.random() < 0.1 else draw.randrange(5_000_000)
        key = f"s{draw.randrange(8)}"
        said = ElementLine(
            partition=number % 3, offset=number // 3 * 2, key=key, time=0, value={"battery": draw.randrange(100)}
        )
        lines.append(ReplayLine(number + 1, said, at - back_us))
    return [*lines, ReplayLine(count + 1, IdleNotice(partition=3, next_offset=0, time=0), at)]


def shown(made: JobReplay) -> list[Any]:
    outputs = sorted((each.moment.time, each.key, each.version, each.output, repr(each.value)) for each in made.emitted)
    return [outputs, [(each.line.number, each.watermark) for each in made.late], made.failed]
