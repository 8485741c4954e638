"""Joins in Spark with a real log, registry and object store: what comes out is what SQL says of the tables."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from include.audit.definition import join_audits
from include.audit.join_state.join_state_spark import verified
from include.audit.join_state.report import StateReport
from include.audit.joins.joins_spark import audit_join
from include.audit.joins.report import JoinReport
from include.cli.join.commands import command as join_command
from include.cli.state.commands import command as state_command
from include.clock import SystemClock
from include.join import joins_spark as stream
from include.join.algorithm.row import Row
from include.join.algorithm.versions import VECTOR_HEADER
from include.join.committed import state_place
from include.join.config.deployed import declared_joins
from include.join.rehoming import committed_of, replace_state
from include.log import topics
from include.log.kafka.log import KafkaReader, KafkaWriter
from include.log.ports import Record
from include.log.publishing.last_mark import newest_of
from include.log.resolved import ResolvedRecord
from include.record.version import from_headers, to_header
from include.settings.deployment import Deployment
from include.state.opening import open_bucket
from include.state.pointer import BucketPointer
from tests.support.joins.harness import PATIENCE_S, JoinHarness


@contextmanager
def application(scene: JoinHarness, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs while the block does; ends by a stop request, and its error is raised here."""
    run = scene.folder / "run"
    run.mkdir(exist_ok=True)
    (run / "stop").unlink(missing_ok=True)
    monkeypatch.setenv("LYREBIRD_RUN", str(run))
    monkeypatch.setenv("LYREBIRD_STATE", str(scene.folder / "state"))
    failures = scene.failures

    def work() -> None:
        try:
            stream.run(f"join_{scene.name}", Deployment.load(scene.folder), keep_session=True)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            failures.append(error)

    assert spark.version
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        (run / "stop").touch()
        thread.join(PATIENCE_S)
    if failures:
        raise failures.pop()
    assert not thread.is_alive()


@pytest.fixture
def scene(unique: str, kafka: str, registry_url: str, s3: Any, tmp_path: Path) -> Iterator[JoinHarness]:
    made = JoinHarness(unique, kafka, registry_url, s3, tmp_path)
    yield made
    made.close()


def assert_audits_find_what_was_planted(scene: JoinHarness, spark: SparkSession) -> None:
    """Both audits are clean; then one fault of each kind is written into the second topic, as by a join that errs."""
    deployment = Deployment.load(scene.folder)
    joins = join_audits(deployment, ["reviewed", "owned"])

    def audited(name: str) -> JoinReport:
        return audit_join(spark, deployment, name, joins[name], clock=SystemClock())

    first, second = audited("reviewed"), audited("owned")
    assert (first.clean, second.clean) == (True, True), [*first.lines(), *second.lines()]
    assert (first.expected, second.expected) == (len(scene.expected_first()), len(scene.expected_second()))
    assert len(second.positions) == 2
    assert second.expected > 5
    reader, writer = KafkaReader(scene.kafka), KafkaWriter(scene.kafka, f"erring-{scene.name}")
    newest: dict[bytes, Record] = {}
    for partition, end in reader.end_offsets(scene.second).items():
        for record in reader.read(scene.second, partition, 0, end):
            newest[record.key or b""] = record
    living = [record for record in newest.values() if record.value is not None]
    resolved = topics.resolved(scene.second)
    newest_state = newest_of(reader, resolved)[0].newest
    state = newest_state.state if newest_state is not None else {}
    told = list(reader.read(resolved, 0, 0, reader.end_offsets(resolved)[0]))
    gone, stale, altered, moved = living[:4]

    def again(record: Record, value: bytes | None, vector: bytes) -> None:
        version = from_headers(record.headers) + 1000
        headers = (to_header(version), (VECTOR_HEADER, vector))
        writer.append(scene.second, record.key, value, headers=headers, partition=record.partition)

    writer.begin()
    again(gone, None, b"1,1")
    again(stale, moved.value, b"1,1")
    again(altered, moved.value, dict(altered.headers)[VECTOR_HEADER] or b"")
    ends = writer.next_offsets()
    newest_said = {
        said.source: said for each in told if each.value is not None for said in [ResolvedRecord.parse(each.value)]
    }
    for said in newest_said.values():
        whole = ends_with(ends, reader)
        changed = replace(said, sequence=said.sequence + 9, full=True, changes=None, state=state, next_offsets=whole)
        writer.append(resolved, changed.key, changed.value(), partition=0)
    writer.commit()
    reader.close()
    writer.close()
    report = audited("owned")
    assert report.found == {"missing": 1, "stale": 1, "altered": 1}, report.lines()
    assert not report.clean


def assert_a_state_goes_into_other_buckets(scene: JoinHarness, spark: SparkSession) -> None:
    """From 4 to 7, by export and import; an export that is not of the newest state is refused."""
    environment = {"LYREBIRD_DEPLOYMENT": str(scene.folder), "LYREBIRD_STATE": str(scene.folder / "by-hand")}

    def said(*words: str) -> Any:
        answer = CliRunner().invoke(state_command, [*words, "--json"], env=environment)
        assert answer.exit_code == 0, answer.exception
        return json.loads(answer.stdout)

    before, out = said("inspect", "reviewed"), str(scene.folder / "out")
    exported = said("export", "reviewed", out)
    assert exported["rows"] == len(scene.reviews) + len(scene.businesses)
    imported = said("import", "reviewed", out, "--buckets", "7")
    assert (imported["rows"], imported["digest"], imported["buckets"]) == (exported["rows"], exported["digest"], 7)
    deployment = Deployment.load(scene.folder)
    join = declared_joins(deployment)["reviewed"]
    with closing(KafkaReader(scene.kafka)) as reader:
        assert committed_of(join, reader).unverified
        _, outputs = verified(spark, deployment, join, clock=SystemClock())
        assert outputs is not None
        assert outputs.clean, outputs.lines()
        # A commit is there for readers a moment after its writer has gone on.
        until_s = SystemClock().monotonic_s() + PATIENCE_S
        while committed_of(join, reader).unverified:
            assert SystemClock().monotonic_s() < until_s
            SystemClock().sleep(0.05)
    assert_state_is_what_the_inputs_say(scene, spark)
    after = said("inspect", "reviewed")
    assert (before["buckets"], after["buckets"], before["base"]) == (4, 7, after["base"])
    stale = CliRunner().invoke(state_command, ["import", "reviewed", out], env=environment)
    assert "has gone on since the export" in str(stale.exception)
    file = scene.folder / "joins" / "reviewed.yaml"
    file.write_text(file.read_text().replace("buckets: 4", "buckets: 7"))


def report_of(scene: JoinHarness, spark: SparkSession, name: str) -> StateReport:
    """The report of `lyrebird state verify`."""
    deployment = Deployment.load(scene.folder)
    return verified(spark, deployment, declared_joins(deployment)[name], clock=SystemClock())[0]


def assert_state_is_what_the_inputs_say(scene: JoinHarness, spark: SparkSession) -> None:
    """Of both joins; the second has a first stage that finds its rows."""
    for name in ("reviewed", "owned"):
        report = report_of(scene, spark, name)
        assert report.clean, report.lines()
        assert report.held == report.expected > 5
    assert report.uncovered == ()


def assert_verify_finds_what_was_planted(scene: JoinHarness, spark: SparkSession) -> None:
    """One fault of each kind in the buckets of the second join, committed as by a join that errs."""
    deployment = Deployment.load(scene.folder)
    join, reader = declared_joins(deployment)["owned"], KafkaReader(scene.kafka)
    place = state_place(join.topic, scene.folder / "erring")
    committed = committed_of(join, reader)
    before = dict(committed.pointers)
    versions: dict[tuple[str, int], str] = {
        (stage, bucket): BucketPointer.from_bytes(each).uid for (stage, bucket), each in before.items()
    }
    rows: dict[bytes, tuple[int, bytes]] = {}
    for (stage, bucket), pointer in before.items():
        if stage == "rows":
            with open_bucket(place, scene.bucket, stage, bucket, pointer) as opened:
                rows |= {key: (bucket, value) for key, value in opened.scan(b"r")}
    (gone, _), (old, (_, was)), (other, (_, same)), (moved, (_, stays)), (twice, (_, kept)) = list(rows.items())[:5]
    elsewhere = (rows[moved][0] + 1) % committed.buckets
    row = Row.from_bytes(was)
    faults: dict[int, dict[bytes, bytes | None]] = {}
    for bucket, key, value in (
        (rows[gone][0], gone, None),
        (rows[old][0], old, row._replace(version=row.version - 1).to_bytes()),
        (rows[other][0], other, same[:-1] + bytes((same[-1] ^ 1,))),
        (rows[moved][0], moved, None),
        (elsewhere, moved, stays),
        (rows[twice][0], twice + b"!", kept),
    ):
        faults.setdefault(bucket, {})[key] = value
    for bucket, changes in faults.items():
        with open_bucket(place, scene.bucket, "rows", bucket, before.get(("rows", bucket))) as opened:
            committed.pointers["rows", bucket] = opened.commit(changes)

    def writer(name: str) -> KafkaWriter:
        return KafkaWriter(scene.kafka, name)

    replace_state(join, committed.pointers, committed.buckets, versions, reader, writer)
    report = report_of(scene, spark, "owned")
    assert report.found == {"missing": 1, "extra": 1, "stale": 1, "altered": 1, "misplaced": 1}, report.lines()
    assert report.next_command == "lyrebird join rebuild owned"
    assert {kind: len(some) for kind, some in report.rows.items()} == report.found
    reader.close()


def ends_with(ends: dict[tuple[str, int], int], reader: KafkaReader) -> dict[tuple[str, int], int]:
    """All ends of the topic, with these."""
    (topic,) = {name for name, _ in ends}
    return {(topic, p): end for p, end in reader.end_offsets(topic).items()} | ends


@pytest.mark.timeout(400)  # three starts of two queries, each of them seconds of CPU
def test_files_that_change_and_a_rebuild_take_effect_beside_the_running_joins(
    scene: JoinHarness, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"LYREBIRD_DEPLOYMENT": str(scene.folder)}

    def said(*words: str) -> Any:
        answer = CliRunner().invoke(join_command, [*words, "--json"], env=environment)
        assert answer.exit_code == 0, answer.exception
        return json.loads(answer.stdout)

    def settled() -> bool:
        return scene.equal() and not any(each["changing"] or each["asked"] for each in said("status")["joins"])

    scene.change(60)
    with application(scene, spark, monkeypatch):
        scene.wait(settled)
    assert said("check", str(scene.folder / "joins" / "reviewed.yaml"))["changes"] == []
    scene.show_noise()
    scene.show_badges()
    changes = said("check", str(scene.folder / "joins" / "owned.yaml"))["changes"]
    assert changes[0] == f"{scene.badges_topic} is read from its beginning"
    scene.change(20)
    with application(scene, spark, monkeypatch):
        scene.change(20)
        scene.wait(settled)
        written = scene.written(scene.second)
        assert said("rebuild", "owned")["state"] in ("asked", "accepted")
        scene.change(20)
        scene.wait(lambda: not said("status", "owned")["joins"][0]["asked"])
        scene.wait(settled)
        assert scene.written(scene.second) >= written + len(scene.expected_second())
    deployment = Deployment.load(scene.folder)
    joins = join_audits(deployment, ["reviewed", "owned"])
    for name, join in joins.items():
        report = audit_join(spark, deployment, name, join, clock=SystemClock())
        assert report.clean, report.lines()
        assert report.held > 3


@pytest.mark.timeout(400)  # three starts of two queries, each of them seconds of CPU
def test_a_chain_of_joins_equals_sql_over_restarts_and_the_loss_of_its_local_state(
    scene: JoinHarness, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.change(60)
    with application(scene, spark, monkeypatch):
        scene.wait(scene.equal)
        scene.change(60)
        scene.wait(scene.equal)
        told = json.loads((scene.folder / "run" / "progress.json").read_text())
        assert set(told["parts"]) == {"reviewed", "owned"}
    scene.change(40)
    scene.truncate()
    scene.change(40)
    with application(scene, spark, monkeypatch):
        scene.wait(scene.equal)
    shutil.rmtree(scene.folder / "state" / "state")
    assert_a_state_goes_into_other_buckets(scene, spark)
    scene.change(40)
    with application(scene, spark, monkeypatch):
        scene.wait(scene.equal)
    assert_state_is_what_the_inputs_say(scene, spark)
    assert_verify_finds_what_was_planted(scene, spark)
    assert_audits_find_what_was_planted(scene, spark)
    stored = [info.key for info in scene.bucket.list("state/")]
    assert any(f"state/{scene.second}/whereabouts-" in key for key in stored)
    assert any(f"state/{scene.first}/rows-" in key for key in stored)
    resolved = topics.resolved(scene.second)
    reader = KafkaReader(scene.kafka)
    sources = newest_of(reader, resolved)[0].sources()
    assert set(sources) == {scene.shop.source, scene.ads.source}
    reader.close()
