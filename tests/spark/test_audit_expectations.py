"""Expectations on Spark: a wrong total, an unknown state and a doubled key are each named; right documents pass."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from include.audit.expectations import expectations_spark as stream
from include.audit.expectations.catalogue import FILE
from include.audit.expectations.definition import Expectation
from include.audit.expectations.expectations_spark import look
from include.audit.expectations.great import installed, validated
from include.audit.expectations.report import ExpectationResult, ExpectationsReport
from include.audit.search.report import SearchReport
from include.clock import ManualClock
from include.errors import SettingsError, Terminal
from include.index.definition import IndexTopic
from include.index.feed import Feed
from include.index.metadata import TopicOrigin
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.kafka.writer import KafkaWriter
from include.log.ports import TopicSpec
from include.log.registry.confluent import ConfluentRegistry
from include.record.codec import Encoder, frame
from include.record.version import to_header
from include.settings.deployment import Deployment

SHIPPED = yaml.safe_load(Path("include/deployment/expectations.yaml").read_text())["expectations"]["assembled_order"]
KEY = {"type": "record", "name": "Key", "fields": [{"name": "order_id", "type": "long"}]}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 14, "scale": 2}
LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "quantity", "type": "int"}, {"name": "price", "type": ["null", MONEY], "default": None}],
}
OLD = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": ["null", "long"], "default": None},
        {"name": "state", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": LINE}, "default": []},
        {"name": "total_price", "type": ["null", MONEY], "default": None},
    ],
}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "paid_at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None}]}  # fmt: skip # noqa: E501


class Orders:
    """A topic of orders with lines, and its deployment with the shipped expectations."""

    def __init__(self, kafka: str, registry_url: str, name: str, folder: Path) -> None:
        self.name, self.version = name, 0
        self.bootstrap, self.folder, self.registry_url = kafka, folder, registry_url
        KafkaAdmin(kafka).ensure(TopicSpec(name, 3))
        self.writer = KafkaWriter(kafka, f"{name}.writer", {})
        registry = ConfluentRegistry(registry_url)
        self.key = Encoder(registry.register(f"{name}-key", KEY), KEY)
        self.encoders = {
            version: Encoder(registry.register(f"{name}-value", schema), schema)
            for version, schema in (("old", OLD), ("new", NEW))
        }

    def write(self, orders: Mapping[int, Any], schema: str = "old") -> None:
        """Orders by key; bytes as they are, None deletes."""
        self.writer.begin()
        for order_id, fields in orders.items():
            self.version += 1
            value = fields
            if isinstance(fields, dict):
                value = self.encoders[schema]({**order(order_id), **fields})
            key = self.key({"order_id": order_id})
            self.writer.append(self.name, key, value, headers=[to_header(self.version)])
        self.writer.commit()

    def window(self) -> dict[int, int]:
        reader = KafkaReader(self.bootstrap, {})
        try:
            # A broker says that a transaction is committed before its records can be read.
            until_s = time.monotonic() + 30
            while reader.unended([self.name]) and time.monotonic() < until_s:
                time.sleep(0.05)
            return dict(reader.end_offsets(self.name))
        finally:
            reader.close()

    def deployment(self, entry: Mapping[str, Any]) -> Deployment:
        index = {"application": "i", "topic": self.name, "entity": "order", "mapping": "m.json"}
        values = {
            "elasticsearch": {"url": "http://127.0.0.1:9"},
            "kafka": {"bootstrap": self.bootstrap},
            "registry": {"url": self.registry_url},
            "indexes": {"orders": index},
            "audits": {"nightly": {"index": "orders"}},
            "expectations": {self.name: entry},
        }
        (self.folder / "all.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
        return Deployment.load(self.folder, {})

    def look(self, spark: SparkSession, window: Mapping[int, int], entry: Any = SHIPPED) -> ExpectationsReport:
        feeds = {self.name: self.feed()}
        return look(spark, self.deployment(entry), "nightly", {self.name: window}, feeds, ManualClock())

    def feed(self) -> Feed:
        return Feed(TopicOrigin("c", "t", self.name, 1), IndexTopic(entity="order"))


def order(order_id: int) -> dict[str, Any]:
    lines = [{"quantity": 2, "price": Decimal("4.10")}, {"quantity": 1, "price": Decimal("0.05")}]
    return {"order_id": order_id, "state": "completed", "lines": lines, "total_price": Decimal("8.25")}


@pytest.fixture
def orders(kafka: str, registry_url: str, unique: str, tmp_path: Path) -> Iterator[Orders]:
    found = Orders(kafka, registry_url, unique, tmp_path)
    yield found
    found.writer.close()
    KafkaAdmin(kafka).delete(unique)


def failed(report: ExpectationsReport) -> dict[str, ExpectationResult]:
    return {each.name: each for each in report.failed}


def test_each_planted_fault_is_named_by_its_expectation_and_the_clean_run_passes(
    spark: SparkSession, orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "here"
    empty.mkdir()
    monkeypatch.chdir(empty)
    orders.write({n: {} for n in range(1, 41)})
    # What counts is the newest of each key, by the schema of its own time.
    orders.write({7: {"state": "cancelled"}, 8: {"lines": [], "total_price": Decimal("0.00")}, 9: None})
    orders.write({10: {"paid_at": 1}}, "new")
    orders.write({11: b"\x01rubbish"})
    spoilt = orders.window()
    orders.write({11: {}})
    clean = orders.window()
    # What comes after the audit's position is not looked at.
    orders.write({3: {"total_price": Decimal("9.25")}, 4: {"state": "lost"}, 5: {"order_id": 6}, 12: {"state": None}})
    report = orders.look(spark, spoilt)
    assert [each.name for each in report.failed] == list(SHIPPED["expect"])
    assert {each.said.partition(",")[0] for each in report.failed} == {"cannot be judged: 1 records cannot be read"}
    assert report.topics[0].unreadable == 1
    report = orders.look(spark, clean)
    assert [each.line() for each in report.failed] == []
    assert [each.name for each in report.results] == list(SHIPPED["expect"])
    (figures,) = report.topics
    assert (figures.documents, figures.unreadable, figures.left_out) == (39, 0, ())

    report = orders.look(spark, orders.window())
    assert {name: (found.unexpected, found.checked) for name, found in failed(report).items()} == {
        "totals_add_up": (1, 39),
        "states_are_known": (2, 39),
        "each_order_once": (2, 39),
    }
    assert failed(report)["totals_add_up"].said == "1 of 39 documents, e.g. 3 (total_price 9.25, lines_total 8.25)"
    assert {(each.key, each.values["state_or_none"]) for each in failed(report)["states_are_known"].examples} == {
        ("4", "lost"),
        ("12", "none"),
    }
    assert {each.key for each in failed(report)["each_order_once"].examples} == {"5", "6"}
    assert json.loads(json.dumps(report.to_json()))["failed"] == 3
    assert os.listdir(empty) == []


def test_what_cannot_be_judged_fails_and_says_why(spark: SparkSession, orders: Orders) -> None:
    orders.write({n: {} for n in range(1, 4)})
    window = orders.window()
    report = orders.look(
        spark,
        window,
        {
            "expect": {
                "no_column": {"ExpectColumnValuesToBeUnique": {"column": "colour"}},
                "some": {"ExpectTableRowCountToBeBetween": {"min_value": 4}},
                "few": {
                    "UnexpectedRowsExpectation": {"unexpected_rows_query": "select * from {batch} where doc_id > 1"}
                },
                "cheap": {"ExpectColumnMaxToBeBetween": {"column": "total_price", "max_value": 5}},
                "twice": {"ExpectTableRowCountToBeBetween": {"min_value": 4}},
            }
        },
    )
    assert {name: found.said for name, found in failed(report).items()} == {
        "no_column": 'cannot be judged: The column "colour" in BatchData does not exist.',
        "some": "observed 3",
        "few": "observed 2",
        "cheap": "observed 8.25",
        "twice": "observed 3",
    }
    with pytest.raises(SettingsError, match=r"no SQL that fits the documents.*columns\.wrong"):
        orders.look(spark, window, {**SHIPPED, "columns": {**SHIPPED["columns"], "wrong": "colour + 1"}})
    with pytest.raises(SettingsError, match="does not say where to cut"):
        look(spark, orders.deployment(SHIPPED), "nightly", {}, {}, ManualClock())


def test_after_the_audits_each_expectation_is_judged_in_their_session_and_one_that_cannot_be_stops_no_other(
    spark: SparkSession, orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.write({n: {} for n in range(1, 4)})
    window = orders.window()
    deployment, known = orders.deployment(SHIPPED), {orders.name: orders.feed()}

    def feeds(_: Deployment, audit: str, index: object) -> dict[str, Feed]:
        if audit != "nightly":
            raise Terminal("no index serves this alias")
        return known

    monkeypatch.setattr(stream, "feeds_of", feeds)
    report = SearchReport("nightly", orders.name, "orders-v1", "digest", "then", window, None)
    files = {audit: tmp_path / f"{audit}.json" for audit in ("gone", "nightly")}
    stream.expectations_after(deployment, tmp_path / "report.json", files, ManualClock())(spark, [report])
    assert json.loads((tmp_path / "report.json").read_text())["audits"]["nightly"]["findings"] == 0
    found = json.loads(files["nightly"].read_text())
    assert (found["failed"], found["topics"][0]["documents"]) == (0, 3)
    assert not files["gone"].exists()


def test_a_topic_without_documents_is_as_expected(spark: SparkSession, orders: Orders) -> None:
    orders.write({1: {}})
    orders.write({1: None})
    report = orders.look(
        spark, orders.window(), {"expect": {"once": {"ExpectColumnValuesToBeUnique": {"column": "doc_id"}}}}
    )
    assert report.failed == ()
    assert report.topics[0].documents == 0


def test_documents_in_json_schema_are_judged_by_the_columns_that_it_says(spark: SparkSession, orders: Orders) -> None:
    line = {"type": "object", "properties": {"quantity": {"type": "integer"}, "price": {"type": "number"}}}
    fields = {"order_id": {"type": "integer"}, "lines": {"type": "array", "items": line}, "total": {"type": "number"}}
    registry = ConfluentRegistry(orders.registry_url)
    schema_id = registry.register(f"{orders.name}-json", {"type": "object", "properties": fields}, "NONE", "JSON")
    registry.close()
    lines = [{"quantity": 2, "price": 4.5}, {"quantity": 1, "price": 1}]
    totals = {1: 10, 2: 10.0, 3: 11}
    texts = {n: json.dumps({"order_id": n, "lines": lines, "total": total}) for n, total in totals.items()}
    orders.write({n: frame(schema_id, text.encode()) for n, text in texts.items()})
    entry = {
        "columns": {"lines_total": "aggregate(lines, 0D, (sum, each) -> sum + each.quantity * each.price)"},
        "expect": {
            "totals": {"ExpectColumnPairValuesToBeEqual": {"column_A": "total", "column_B": "lines_total"}},
            "ids": {"ExpectColumnValuesToBeUnique": {"column": "order_id"}},
        },
    }
    report = orders.look(spark, orders.window(), entry)
    assert report.topics[0].documents == 3
    assert {name: found.said for name, found in failed(report).items()} == {
        "totals": "1 of 3 documents, e.g. 3 (total 11.0, lines_total 10.0)"
    }


def test_the_catalogue_is_what_the_installed_version_says() -> None:
    assert json.loads(FILE.read_text()) == installed(), "write `installed()` to catalogue.json"


def test_rows_are_named_by_the_column_of_the_key(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1), ("b", 2)], "doc_id string, n int")
    declared = Expectation("t", "small", "ExpectColumnValuesToBeBetween", {"column": "n", "max_value": 1})
    (result,) = validated(frame, [declared], "doc_id")
    assert not result.success
    assert [(each.key, each.values) for each in result.examples] == [("b", {"n": 2})]
