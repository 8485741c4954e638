"""Joins in Spark with a real log, registry and object store: what comes out is what SQL says of the tables."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from include.audit.definition import join_audits
from include.audit.joins.report import JoinReport
from include.audit.joins.stream import audit_join
from include.clock import SystemClock
from include.join import stream
from include.join.algorithm.versions import VECTOR_HEADER
from include.log import topics
from include.log.control import Control
from include.log.kafka import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.ports import Record, TopicSpec
from include.log.registry import ConfluentRegistry
from include.log.resolved import Resolved
from include.log.spoken import newest_of
from include.record.codec import Decoder, Encoder
from include.record.schema import Column, TableSchema
from include.record.version import from_headers, to_header
from include.settings.deployment import Deployment
from include.store.s3 import S3Store
from tests.captured import Captured

PATIENCE_S = 60
Row = dict[str, Any]


def table(name: str, database: str, *columns: str) -> TableSchema:
    """The first column is the key."""
    return TableSchema(database, name, tuple(Column(each, "bigint") for each in columns), (columns[0],))


class Scene:
    """Tables of two servers and a plain topic, under one unique name; two joins, one of them of the other's output."""

    def __init__(self, name: str, kafka: str, registry_url: str, s3: Any, folder: Path) -> None:
        self.name, self.kafka, self.folder, self.draw = name, kafka, folder, random.Random(7)
        self.admin, self.registry = KafkaAdmin(kafka), ConfluentRegistry(registry_url)
        self.shop = self._captured("shop", table("reviews", name, "review_id", "business_id", "stars", "noise"))
        self.ads = self._captured("ads", table("businesses", name, "business_id", "city"))
        self.writer = KafkaWriter(kafka, f"owners-{name}")
        self.owners_topic = f"{name}.owners"
        self.admin.ensure(TopicSpec(self.owners_topic, 2, {"cleanup.policy": "compact"}))
        self.encode: dict[str, Encoder] = {}
        for part, fields in (("key", ["owner_id"]), ("value", ["owner_id", "business_id", "phone"])):
            schema = {"type": "record", "name": part, "fields": [{"name": each, "type": "long"} for each in fields]}
            self.encode[part] = Encoder(self.registry.register(f"{self.owners_topic}-{part}", schema), schema)
        self.failures: list[BaseException] = []
        self.reviews: dict[int, Row] = {}
        self.businesses: dict[int, Row] = {}
        self.owners: dict[int, Row] = {}
        self.bucket = S3Store(s3.endpoint, name, s3.access_key, s3.secret_key)
        self.bucket.ensure_bucket()
        self.first, self.second = f"{name}.reviewed", f"{name}.owned"
        (folder / "joins").mkdir()
        self._declare(kafka, registry_url, s3)

    def _captured(self, server: str, *tables: TableSchema) -> Captured:
        writer = KafkaWriter(self.kafka, f"capture-{server}-{self.name}")
        return Captured(writer, self.admin, self.registry, tables, source=f"{server}{self.name}")

    def _declare(self, kafka: str, registry_url: str, s3: Any) -> None:
        reviewed = {
            "join": [
                {
                    "topic": self.shop.topic("reviews"),
                    "join_keys": ["business_id"],
                    "exclude_fields": ["noise"],
                },
                {"topic": self.ads.topic("businesses"), "join_keys": ["business_id"]},
            ],
            "output": {"namespace": self.name, "source": "reviewed"},
            "buckets": 4,
        }
        owned = {
            "join": [
                {"topic": self.first, "join_keys": ["business_id"]},
                {"topic": self.owners_topic, "join_keys": ["business_id"], "type": "left"},
            ],
            "output": {"namespace": self.name, "source": "owned"},
            "buckets": 3,
        }
        for name, join in (("reviewed", reviewed), ("owned", owned)):
            (self.folder / "joins" / f"{name}.yaml").write_text(yaml.safe_dump(join))
        application = f"join_{self.name}"
        values = {
            "joins": {
                name: {"application": application, "file": f"joins/{name}.yaml"} for name in ("reviewed", "owned")
            },
            "applications": {application: {"entry": "spark_apps/join.py", "topics": [self.first, self.second]}},
            "kafka": {"bootstrap": kafka},
            "registry": {"url": registry_url},
            "store": {
                "endpoint": s3.endpoint,
                "bucket": self.name,
                "access_key": s3.access_key,
                "secret_key": s3.secret_key,
            },
        }
        (self.folder / "all.yaml").write_text(yaml.safe_dump(values))

    def change(self, count: int) -> None:
        """Some transactions on both servers and in the plain topic."""
        draw = self.draw
        for _ in range(count):
            review, business = draw.randrange(40), draw.randrange(12)
            kind = draw.choice(["review", "review", "review", "business", "owner", "gone"])
            if kind == "review":
                row = {"review_id": review, "business_id": business, "stars": draw.randrange(5), "noise": count}
                self._commit(self.shop, "reviews", self.reviews, review, row)
            elif kind == "business":
                row = {"business_id": business, "city": draw.randrange(9)}
                self._commit(self.ads, "businesses", self.businesses, business, row)
            elif kind == "owner":
                owner = draw.randrange(8)
                self._own(owner, {"owner_id": owner, "business_id": business, "phone": draw.randrange(1000)})
            elif draw.random() < 0.5:
                self._commit(self.shop, "reviews", self.reviews, review, None)
            elif draw.random() < 0.5:
                self._commit(self.ads, "businesses", self.businesses, business, None)
            else:
                self._own(draw.randrange(8), None)

    def truncate(self) -> None:
        """TRUNCATE of reviews."""
        self.reviews.clear()
        self.shop.commit(control=Control("truncate", self.name, "reviews", self.shop.version + 1))

    def _commit(self, capture: Captured, name: str, rows: dict[int, Row], key: int, after: Row | None) -> None:
        before = rows.pop(key, None)
        if after is not None:
            rows[key] = after
        if before is not None or after is not None:
            capture.commit(("d" if after is None else "c" if before is None else "u", name, before, after))

    def _own(self, owner: int, row: Row | None) -> None:
        self.owners.pop(owner, None)
        if row is not None:
            self.owners[owner] = row
        self.writer.begin()
        value = None if row is None else self.encode["value"](row)
        self.writer.append(self.owners_topic, self.encode["key"]({"owner_id": owner}), value)
        self.writer.commit()

    def heartbeat(self) -> None:
        self.shop.heartbeat()
        self.ads.heartbeat()

    def expected_first(self) -> dict[tuple[Any, ...], Row]:
        return {
            (review["review_id"], business["business_id"]): {
                "review_id": review["review_id"],
                "business_id": business["business_id"],
                "stars": review["stars"],
                "city": business["city"],
            }
            for review in self.reviews.values()
            for business in self.businesses.values()
            if review["business_id"] == business["business_id"]
        }

    def expected_second(self) -> dict[tuple[Any, ...], Row]:
        found = {}
        for key, row in self.expected_first().items():
            mine = [owner for owner in self.owners.values() if owner["business_id"] == row["business_id"]]
            for owner in mine or [{"owner_id": None, "phone": None}]:
                found[*key, owner["owner_id"]] = {**row, "owner_id": owner["owner_id"], "phone": owner["phone"]}
        return found

    def table(self, topic: str) -> dict[tuple[Any, ...], Row]:
        """What a sink has; each (key, version) is there once and versions of a key grow."""
        if self.admin.describe(topic) is None:
            return {}
        reader, decode = KafkaReader(self.kafka), Decoder(self.registry.schema)
        newest: dict[bytes, tuple[int, bytes | None]] = {}
        for partition, end in reader.end_offsets(topic).items():
            for record in reader.read(topic, partition, 0, end):
                key, version = record.key or b"", from_headers(record.headers)
                assert version > newest.get(key, (-1, None))[0], "once, and growing"
                newest[key] = version, record.value
        reader.close()
        return {tuple(decode(key).values()): decode(value) for key, (_, value) in newest.items() if value is not None}

    @contextmanager
    def application(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Runs while the block does; ends by a stop request, and its error is raised here."""
        run = self.folder / "run"
        run.mkdir(exist_ok=True)
        (run / "stop").unlink(missing_ok=True)
        monkeypatch.setenv("LYREBIRD_RUN", str(run))
        monkeypatch.setenv("LYREBIRD_STATE", str(self.folder / "state"))
        failures = self.failures

        def work() -> None:
            try:
                stream.run(f"join_{self.name}", Deployment.load(self.folder), keep_session=True)
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

    def wait(self, done: Callable[[], bool]) -> None:
        """Heartbeats until something is so."""
        clock = SystemClock()
        until_s = clock.monotonic_s() + PATIENCE_S
        while not done():
            if self.failures:
                raise self.failures.pop()
            assert clock.monotonic_s() < until_s, self.told()
            clock.sleep(0.3)
            self.heartbeat()

    def told(self) -> str:
        """What is wrong."""
        lines = []
        for topic, expected in ((self.first, self.expected_first()), (self.second, self.expected_second())):
            made = self.table(topic)
            wrong = [key for key in made.keys() | expected.keys() if made.get(key) != expected.get(key)]
            lines += [f"{topic} {key}: {made.get(key)} for {expected.get(key)}" for key in wrong[:5]]
        progress = self.folder / "run" / "progress.json"
        return "\n".join([*lines, progress.read_text() if progress.exists() else "no progress"])

    def equal(self) -> bool:
        return self.table(self.first) == self.expected_first() and self.table(self.second) == self.expected_second()

    def close(self) -> None:
        """Take it all away."""
        for topic in self.admin.names():
            if self.name in topic:
                self.admin.delete(topic)
        self.writer.close()


@pytest.fixture
def scene(unique: str, kafka: str, registry_url: str, s3: Any, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(unique, kafka, registry_url, s3, tmp_path)
    yield made
    made.close()


def assert_audits_find_what_was_planted(scene: Scene, spark: SparkSession) -> None:
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
        said.source: said for each in told if each.value is not None for said in [Resolved.parse(each.value)]
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


def ends_with(ends: dict[tuple[str, int], int], reader: KafkaReader) -> dict[tuple[str, int], int]:
    """All ends of the topic, with these."""
    (topic,) = {name for name, _ in ends}
    return {(topic, p): end for p, end in reader.end_offsets(topic).items()} | ends


@pytest.mark.timeout(400)  # three starts of two queries, each of them seconds of CPU
def test_a_chain_of_joins_equals_sql_over_restarts_and_the_loss_of_its_local_state(
    scene: Scene, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.change(60)
    with scene.application(spark, monkeypatch):
        scene.wait(scene.equal)
        scene.change(60)
        scene.wait(scene.equal)
        told = json.loads((scene.folder / "run" / "progress.json").read_text())
        assert set(told["parts"]) == {"reviewed", "owned"}
    scene.change(40)
    scene.truncate()
    scene.change(40)
    with scene.application(spark, monkeypatch):
        scene.wait(scene.equal)
    shutil.rmtree(scene.folder / "state" / "state")
    scene.change(40)
    with scene.application(spark, monkeypatch):
        scene.wait(scene.equal)
    assert_audits_find_what_was_planted(scene, spark)
    stored = [info.key for info in scene.bucket.list("state/")]
    assert any(f"state/{scene.second}/whereabouts-" in key for key in stored)
    assert any(f"state/{scene.first}/rows-" in key for key in stored)
    resolved = topics.resolved(scene.second)
    reader = KafkaReader(scene.kafka)
    sources = newest_of(reader, resolved)[0].sources()
    assert set(sources) == {scene.shop.source, scene.ads.source}
    reader.close()
