"""Tables of their topics' current state, kept by Spark on a real log and object store."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from include.cli.tables.commands import command as table_command
from include.clock import SystemClock
from include.errors import SettingsError, Terminal
from include.lake.tables import tables_spark as stream
from include.lake.tables.columns import OWN
from include.lake.tables.delta_log import DeltaLog
from include.lake.tables.generation import generations_of
from include.settings.deployment import Deployment
from tests.support.joins.harness import PATIENCE_S, JoinHarness
from tests.support.tables.join_tables import KeptTables

Row = dict[str, Any]
_WITHIN_S = 150


@pytest.fixture
def scene(unique: str, kafka: str, registry_url: str, s3: Any, tmp_path: Path) -> Iterator[JoinHarness]:
    made = JoinHarness(unique, kafka, registry_url, s3, tmp_path)
    yield made
    made.close()


@pytest.fixture
def kept(scene: JoinHarness) -> KeptTables:
    return KeptTables(scene)


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
            stream.run("lake_tables", Deployment.load(scene.folder), keep_session=True)
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


def incidents(scene: JoinHarness) -> list[dict[str, str]]:
    """Of records set aside, as Airflow mails them."""
    told = json.loads((scene.folder / "run" / "progress.json").read_text())
    return [each for each in told.get("incidents", ()) if each["kind"] == "refused"]


@pytest.mark.timeout(900)
def test_tables_of_two_servers_and_a_plain_topic_equal_them_over_a_truncation_and_a_restart(
    scene: JoinHarness, kept: KeptTables, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.change(120)
    with application(scene, spark, monkeypatch):
        scene.wait(kept.equal, _WITHIN_S)
        scene.change(40)
        scene.truncate()
        scene.change(15)
        scene.wait(kept.equal, _WITHIN_S)
    scene.change(30)
    scene.shop.spoil("reviews", b"no change")
    with application(scene, spark, monkeypatch):
        scene.wait(kept.equal, _WITHIN_S)
        scene.wait(lambda: len(incidents(scene)) == 1, _WITHIN_S)
    (incident,) = incidents(scene)
    assert incident["text"].startswith(f"1 records of {scene.shop.topic('reviews')} could not be read")
    place = kept.place("tables", scene.shop.topic("reviews"))
    assert place is not None
    log = DeltaLog(*place, SystemClock())
    source = scene.shop.source
    state = log.state([source])
    assert state is not None
    labelled = [(version, label[source]) for version, _, label in log.labels(1000) if label]
    assert labelled
    assert labelled[0][1].position.gtids.last[0][1] <= scene.shop.transactions  # type: ignore[union-attr]
    assert [cut.resolved_offset for _, cut in labelled] == sorted(
        (c.resolved_offset for _, c in labelled), reverse=True
    )
    commands_tell_and_read_the_same(scene, spark, monkeypatch)
    with application(scene, spark, monkeypatch):
        a_new_generation_is_read_once_it_is_complete(scene, kept)


def told(*words: str) -> Any:
    """What `lyrebird table` says as JSON."""
    done = CliRunner().invoke(table_command, [*words, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def commands_tell_and_read_the_same(scene: JoinHarness, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(scene.folder))
    topic = scene.shop.topic("reviews")
    status = {each["topic"]: each for each in told("status")["tables"]}
    assert set(status) == {topic, scene.ads.topic("businesses"), scene.owners_topic}
    assert status[topic]["rows"] == len(scene.reviews)
    assert (status[topic]["waiting"], status[scene.owners_topic]["positions"]) == (0, {})
    position = status[topic]["positions"][scene.shop.source]
    now, then = told("files", topic), told("files", topic, "--at", position)
    assert then["version"] == status[topic]["label_version"] <= now["version"]
    rows = 0
    for uri in now["files"]:
        found = scene.bucket.get(uri.removeprefix(f"s3://{scene.name}/"))
        assert found is not None
        file = scene.folder / "one.parquet"
        file.write_bytes(found.body)
        rows += pq.read_table(file).num_rows
    assert rows == now["rows"] == len(scene.reviews)
    text = CliRunner().invoke(table_command, ["files", topic, "--as", "sql"], catch_exceptions=False).stdout
    assert text.startswith("SELECT * FROM read_parquet(['s3://")
    deployment = Deployment.load(scene.folder)
    frame = stream.read_table(spark, deployment, topic)
    read = {row["review_id"]: {name: row[name] for name in row.asDict() if name not in OWN} for row in frame.collect()}
    assert read == scene.reviews
    # As of an earlier transaction: the rows that it had left, by a version that says so.
    labels = [(cut["version"], cut) for cut in (told("files", topic, "--at", "0")["label"] or {}).values()]
    assert labels == []
    for words, error in (
        (("files", topic, "--at", "yesterday"), SettingsError),
        (("files", topic, "--at", "1970-01-01T00:00:00Z"), Terminal),
        (("files", topic + "x"), SettingsError),
        (("status", "nosuch"), SettingsError),
    ):
        with pytest.raises(error):
            CliRunner().invoke(table_command, list(words), catch_exceptions=False)
    assert told("maintain", "--dry-run")["dry_run"] is True
    assert {each["removed"] for each in told("maintain")["tables"]} == {0}


def a_new_generation_is_read_once_it_is_complete(scene: JoinHarness, kept: KeptTables) -> None:
    topic = scene.shop.topic("reviews")
    assert told("rebuild", topic, "--dry-run") == {"topic": topic, "serving": 1, "writing": 2, "begun": False}
    assert told("rebuild", topic)["begun"] is True
    assert told("rebuild", topic)["begun"] is False
    scene.change(20)

    def renewed() -> bool:
        found = generations_of(scene.bucket, "tables", topic)
        return found is not None and found.serving == 2 and kept.equal()

    scene.wait(renewed, _WITHIN_S)
    assert told("status", topic)["tables"][0]["generation"] == 2
