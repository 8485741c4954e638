"""Tasks read, frames go to buckets, tasks apply them: `batches_spark.exchange` on a real Spark."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from include.errors import Terminal, Transient
from include.log.planning.slices import Slice
from include.log.running.batches_spark import exchange, homes_of
from tests.support.paths import ROOT

BUCKETS = 16


def share(number: int) -> list[Slice]:
    return [Slice("t", number, 0, 1)]


def frame(bucket: int, number: int) -> bytes:
    return b"%d of %d" % (bucket, number)


def read(slices: Sequence[Slice]) -> dict[int, bytes]:
    """Frames for every second bucket, later ones first."""
    number = slices[0].partition
    return {bucket: frame(bucket, number) for bucket in reversed(range(number % 2, BUCKETS, 2))}


def test_each_bucket_gets_its_frames_by_task_and_results_come_by_bucket(spark: SparkSession) -> None:
    shares = [share(number) for number in range(5)]
    expected = [
        (bucket, [frame(bucket, number) for number in range(5) if number % 2 == bucket % 2])
        for bucket in range(BUCKETS)
    ]
    for tasks in (None, 1, 3, 16, 99):
        found = exchange(spark, read, shares, lambda _, frames: frames, buckets=BUCKETS, tasks=tasks)
        assert list(found) == expected


def test_a_stage_between_passes_frames_on_to_other_buckets(spark: SparkSession) -> None:
    def turned(bucket: int, frames: list[bytes]) -> dict[int, bytes]:
        return {bucket * 3 % BUCKETS: b"|".join(frames), 0: b"from %d" % bucket}

    shares = [share(number) for number in range(4)]
    joined = {b: b"|".join(frame(b, n) for n in range(4) if n % 2 == b % 2) for b in range(BUCKETS)}
    expected = [(b * 3 % BUCKETS, [joined[b]]) for b in range(1, BUCKETS)]
    expected = [(0, [b"from %d" % b for b in range(BUCKETS)]), *sorted(expected)]
    for tasks in (1, 2, 16):
        found = exchange(spark, read, shares, lambda _, frames: frames, buckets=BUCKETS, tasks=tasks, middle=turned)
        assert list(found) == expected
    one = exchange(spark, read, shares[:1], lambda _, frames: frames, buckets=BUCKETS, tasks=1, middle=turned)
    assert [bucket for bucket, _ in one] == sorted({0} | {b * 3 % BUCKETS for b in range(0, BUCKETS, 2)})


def test_buckets_without_a_frame_are_not_applied_and_an_empty_frame_is_one(spark: SparkSession) -> None:
    frames = {0: {3: b"x"}, 1: {}, 2: {11: b"", 3: b"y"}}
    shares = [share(number) for number in range(3)]
    found = exchange(
        spark, lambda slices: frames[slices[0].partition], shares, lambda bucket, got: (bucket, got), buckets=BUCKETS
    )
    assert list(found) == [(3, (3, [b"x", b"y"])), (11, (11, [b""]))]
    assert list(exchange(spark, lambda _: {}, shares, lambda *got: got, buckets=BUCKETS)) == []
    assert list(exchange(spark, read, [], lambda *got: got, buckets=BUCKETS)) == []


@pytest.mark.parametrize("keep", [False, True])
def test_large_frames_and_results_arrive_whole(spark: SparkSession, keep: bool) -> None:
    def large(slices: Sequence[Slice]) -> dict[int, bytes]:
        return {bucket: bytes([bucket]) * (5_000_000 + slices[0].partition) for bucket in (0, 9)}

    def joined(bucket: int, frames: list[bytes]) -> tuple[list[int], bytes]:
        return [len(each) for each in frames], hashlib.sha256(b"".join(frames)).digest() + b"".join(frames)

    shares = [share(number) for number in range(3)]
    found = list(exchange(spark, large, shares, joined, buckets=BUCKETS, keep=keep, share_bytes=3 << 20))
    assert [(bucket, sizes) for bucket, (sizes, _) in found] == [
        (bucket, [5_000_000, 5_000_001, 5_000_002]) for bucket in (0, 9)
    ]
    for bucket, (_, data) in found:
        assert data[32:] == bytes([bucket]) * 15_000_003
        assert data[:32] == hashlib.sha256(data[32:]).digest()


def test_one_share_for_one_task_needs_no_shuffle_and_no_second_task(spark: SparkSession) -> None:
    def where(_: int, frames: list[bytes]) -> tuple[int, list[bytes]]:
        return os.getpid(), frames

    def here(slices: Sequence[Slice]) -> dict[int, bytes]:
        return {bucket: b"%d" % os.getpid() for bucket in (9, 4)}

    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    found = list(exchange(spark, here, [share(0)], where, buckets=BUCKETS, tasks=1))
    jobs = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup(None)) - before]
    assert [bucket for bucket, _ in found] == [4, 9]
    assert all(frames == [b"%d" % pid] for _, (pid, frames) in found)
    assert [len(job.stageIds) for job in jobs if job is not None] == [1]


@pytest.mark.parametrize(("keep", "times"), [(False, 2), (True, 1)])
def test_large_results_are_kept_or_made_twice_and_small_ones_once(
    spark: SparkSession, tmp_path: Path, keep: bool, times: int
) -> None:
    log = tmp_path / "applied"

    def sized(bucket: int, _: list[bytes]) -> bytes:
        with log.open("a") as file:
            file.write(f"{bucket}\n")
        return b"x" * (3_000_000 if bucket < 2 else 3)

    shares = [share(0), share(1)]
    found = exchange(spark, read, shares, sized, buckets=BUCKETS, tasks=8, keep=keep, share_bytes=1 << 20)
    assert len(list(found)) == BUCKETS
    applied = log.read_text().split()
    assert {applied.count(str(bucket)) for bucket in (0, 1)} == {times}
    assert {applied.count(str(bucket)) for bucket in range(2, BUCKETS)} == {1}


def test_small_results_beside_large_ones_come_in_order(spark: SparkSession) -> None:
    def sized(bucket: int, frames: list[bytes]) -> bytes:
        return bytes([bucket]) * (3_000_000 if bucket in (2, 3, 12) else 3)

    found = exchange(spark, read, [share(0), share(1)], sized, buckets=BUCKETS, tasks=8, share_bytes=1 << 20)
    assert [(bucket, len(data)) for bucket, data in found] == [
        (bucket, 3_000_000 if bucket in (2, 3, 12) else 3) for bucket in range(BUCKETS)
    ]


@pytest.mark.timeout(600)
def test_a_gigabyte_of_results_passes_through_a_heap_of_half_of_it(spark: SparkSession) -> None:
    # The session's driver, which has the executor in it, runs with 512 MB.
    assert spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory() <= 512 << 20  # type: ignore[union-attr]
    size = 64 << 20

    def sized(bucket: int, _: list[bytes]) -> bytes:
        return os.urandom(1 << 20) * (size >> 20)

    seen = []
    for bucket, result in exchange(spark, read, [share(0), share(1)], sized, buckets=BUCKETS, keep=True):
        assert len(result) == size
        assert result[: 1 << 20] == result[-(1 << 20) :]
        seen.append(bucket)
    assert seen == list(range(BUCKETS))


def test_tasks_with_homes_give_the_same(spark: SparkSession) -> None:
    homes = homes_of(spark, 3)
    shares = [share(number) for number in range(4)]
    for some in (shares, shares[:1], []):
        plain = exchange(spark, read, some, lambda _, frames: frames, buckets=BUCKETS)
        found = exchange(spark, read, some, lambda _, frames: frames, buckets=BUCKETS, homes=homes)
        assert list(found) == list(plain)
    homes.unpersist()


@pytest.mark.parametrize("stage", ["read", "apply"])
def test_an_error_in_either_stage_keeps_its_class(spark: SparkSession, stage: str) -> None:
    def refuse(*_: Any) -> Any:
        raise Transient("no answer from the registry", system="registry")

    def fail(*_: Any) -> Any:
        raise KeyError(stage)

    def run(way: Any) -> None:
        first, second = (way, lambda *got: got) if stage == "read" else (read, way)
        exchange(spark, first, [share(0)], second, buckets=BUCKETS)

    with pytest.raises(Transient, match=r"^no answer from the registry \(system='registry'\)$"):
        run(refuse)
    with pytest.raises(PySparkException, match="KeyError"):
        run(fail)


def test_a_bucket_that_is_none_is_refused(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="bucket 16 of 16"):
        exchange(spark, lambda _: {16: b""}, [share(0)], lambda *got: got, buckets=BUCKETS)


def test_nothing_is_kept_once_results_were_taken_or_given_up(spark: SparkSession) -> None:
    kept = spark.sparkContext._jsc.getPersistentRDDs
    before = set(kept())
    shares = [share(0)]
    assert len(list(exchange(spark, read, shares, lambda *got: b"x", buckets=BUCKETS, keep=True))) == 8
    far = exchange(spark, read, shares, lambda *got: b"x" * 100, buckets=BUCKETS, keep=True, share_bytes=10)
    assert set(kept()) != before
    assert next(far) == (0, b"x" * 100)
    far.close()  # type: ignore[attr-defined]
    with pytest.raises(Terminal):
        exchange(spark, read, shares, _end, buckets=BUCKETS, keep=True)
    assert set(kept()) == before


def _end(*_: Any) -> None:
    raise Terminal("the end")


PROGRAM = """
import hashlib, sys
from pathlib import Path
import psutil
from include.log.planning.slices import Slice
from include.log.running.batches_spark import exchange, homes_of
from tests.support.spark_cluster import SparkCluster

folder = Path(sys.argv[1])
shares = [[Slice("t", number, 0, 1)] for number in range(4)]

def read(slices):
    return {bucket: b"%d of %d" % (bucket, slices[0].partition) for bucket in range(16)}

def killing(what):
    def apply(bucket, frames):
        marker = folder / f"killed-{what}"
        if bucket == 13 and not marker.exists():
            marker.touch()
            me = psutil.Process()
            # A worker's parent is the daemon that forks workers; its parent is the executor.
            (me if what == "worker" else me.parent().parent()).kill()
        return hashlib.sha256(b"|".join(frames)).hexdigest() * 1000
    return apply

def executor_of(bucket, frames):
    return psutil.Process().parent().parent().pid

def told(what, results):
    found = list(results)
    print(what, len(found), hashlib.sha256(repr(found).encode()).hexdigest(), flush=True)

cluster = SparkCluster(folder)
try:
    cluster.add()
    cluster.add()
    spark = cluster.session(spark_locality_wait="3s", spark_shuffle_reduceLocality_enabled="false")
    (folder / "killed-nobody").touch()
    for what in ("nobody", "worker", "executor"):
        told(what, exchange(spark, read, shares, killing(what), buckets=16))
    homes = homes_of(spark, 4)
    lived = [tuple(exchange(spark, read, shares, executor_of, buckets=16, homes=homes)) for _ in range(6)]
    print("homes", len(lived), len(set(lived)), flush=True)
    left = exchange(spark, read, shares, killing("nobody"), buckets=16, keep=True, share_bytes=100_000)
    for worker in cluster._workers:
        for executor in cluster._executors_of(worker):
            executor.kill()
    told("executors-that-kept-results", left)
finally:
    cluster.close()
"""


@pytest.mark.timeout(900)
def test_whoever_is_killed_in_the_second_stage_the_results_are_the_same(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    # Each of six times each bucket was applied by the executor that had it before.
    assert ["homes", "6", "1"] in lines
    told = [line for line in lines if line[0] != "homes"]
    assert [what for what, _, _ in told] == ["nobody", "worker", "executor", "executors-that-kept-results"]
    assert {(count, digest) for _, count, digest in told} == {("16", told[0][2])}
    assert (tmp_path / "killed-worker").exists()
    assert (tmp_path / "killed-executor").exists()
