"""Documents of a real shop against its database: nothing is called wrong under load, and what is wrong is found."""

from __future__ import annotations

import io
import threading
import time

import fastavro
import pytest
from pyspark.sql import SparkSession

from demo.shop.generator import Shop
from include.log.kafka.log import KafkaWriter
from include.log.registry.confluent import ConfluentRegistry
from include.record.codec import Decoder, frame, unframe
from include.record.version import from_headers, to_header
from include.settings.connections import Registry
from include.settings.deployment import Deployment
from tests.support.documents.documents_audit import audit, place
from tests.support.documents.shop import WITHOUT_SPARK, DocumentShop

__all__ = ["place"]

AUDITS = 3
UNLOGGED = ("SET SESSION sql_log_bin = 0", "SET SESSION foreign_key_checks = 0")


@pytest.mark.timeout(400)
def test_no_document_is_called_wrong_while_the_shop_sells(place: DocumentShop, spark: SparkSession) -> None:
    with Shop(place.server.connect, 3, writers=2, pace_s=0.2) as shop:
        shop.prepare()
        place.capture()
        place.assemble(WITHOUT_SPARK)
        selling = threading.Thread(target=shop.run, args=(20,))
        selling.start()
        try:
            place.wait(place.wrote_more())
            place.wait(lambda: len(place.newest()) > 20)
            for _ in range(AUDITS):
                report = audit(place, spark)
                assert report.found == [], report.lines()
                assert report.documents > 10
                time.sleep(1)
        finally:
            shop.stop()
            selling.join()
        shop.quiesce()
    place.wait(place.complete)
    report = audit(place, spark)
    assert report.verdict == "clean", report.lines()
    assert report.documents == len(place.truth())
    third = audit(place, spark, share=3)
    assert 0 < third.documents < report.documents
    assert third.verdict == "clean"


@pytest.mark.timeout(400)
def test_what_no_signal_told_of_is_found_with_its_fields_and_tables_and_mended(
    place: DocumentShop, spark: SparkSession
) -> None:
    with Shop(place.server.connect, 5, writers=2, pace_s=0.01) as shop:
        shop.prepare()
        shop.run(1000, orders=40)
        shop.quiesce()
    place.capture()
    place.assemble(WITHOUT_SPARK)
    place.wait(lambda: place.complete() and len(place.newest()) > 20)
    first, second, third, fourth, *_ = sorted(place.truth())
    newest = "SELECT MAX(id) FROM orders WHERE order_id = {} AND state IN ('completed', 'cancelled')"
    address = f"SELECT address_id FROM orders WHERE id = ({newest.format(first)})"
    place.sql(
        *UNLOGGED,
        f"UPDATE addresses SET street = '' WHERE id = ({address})",
        f"UPDATE order_lines SET quantity = quantity + 1 WHERE order_row_id = ({newest.format(second)})",
        f"DELETE FROM orders WHERE order_id = {third}",
        "SELECT 1",
    )
    plant(place, fourth)
    wrong = {str(key) for key, body in place.truth().items() if key != fourth and place.newest()[key].body != body}
    report = audit(place, spark)
    found = {each.key: each for each in report.found}
    assert {key for key, each in found.items() if each.kind == "altered"} == wrong
    assert {str(first), str(second)} <= wrong
    assert "delivery_address.street" in found[str(first)].fields
    assert "addresses" in found[str(first)].tables
    assert {"lines", "total_price"} <= set(found[str(second)].fields)
    assert "order_lines" in found[str(second)].tables
    assert {(each.kind, key) for key, each in found.items() if each.kind != "altered"} == {
        ("extra", str(third)),
        ("extra", "999999"),
        ("missing", str(fourth)),
    }
    assert report.next_command == f"lyrebird audit documents {place.topic} --repair"
    mended = audit(place, spark, repair="mend")
    assert mended.verdict == "clean", mended.lines()
    assert mended.repaired == {"found": len(found), "asked": len(found)}
    assert audit(place, spark).verdict == "clean"


def plant(place: DocumentShop, gone: int) -> None:
    """A document by hand for an order that never was, and a tombstone for one that is."""
    registry = ConfluentRegistry(Deployment.load(place.folder / "deployment").one("registry", Registry))
    records = [(each.key, each) for each in place.log.records(place.topic) if each.key and each.value]
    decode = Decoder(registry.schema)
    key, mine = next((key, each) for key, each in reversed(records) if decode(key)["order_id"] == gone)
    version = max(from_headers(each.headers) for _, each in records) + 1
    schema_id, _ = unframe(key)
    planted = io.BytesIO()
    fastavro.schemaless_writer(planted, fastavro.parse_schema(registry.schema(schema_id)), {"order_id": 999_999})
    writer = KafkaWriter(place.kafka, f"by-hand-{place.name}")
    writer.begin()
    headers = (to_header(version),)
    writer.append(place.topic, frame(schema_id, planted.getvalue()), mine.value, headers=headers)
    writer.append(place.topic, key, None, headers=headers, partition=mine.partition)
    writer.commit()
    writer.close()
