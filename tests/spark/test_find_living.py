"""Old documents of a real topic, looked for on executors: the same keys as in memory, a page at a time, and told of."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from include.clock import SystemClock
from include.document import assembler_spark as stream
from include.document.topic_state import LivingPages, by_reader
from include.log.kafka.log import KafkaReader
from include.record import version as versions
from tests.spark.conftest import Log

KEYS = 3_000
RECORDS = 12_000


@pytest.fixture
def topic(log: Log, unique: str) -> str:
    """Records of many keys in an order that has nothing to do with their versions."""
    name, chance = log.topic(f"documents-{unique}", 3), random.Random(7)
    log.writer.begin()
    for number in range(RECORDS):
        key = f"{chance.randrange(KEYS):05}".encode()
        value = None if chance.random() < 0.3 else b"document"
        headers = (versions.to_header(1 + (number * 7919) % RECORDS),)
        log.writer.append(name, key, value, headers=headers, partition=chance.randrange(3))
    ends = log.writer.next_offsets()
    log.writer.commit()
    # Markers come after the commit's answer: until then readers do not see the transaction.
    reader, clock = KafkaReader(log.bootstrap), SystemClock()
    until_s = clock.monotonic_s() + 30
    while any(reader.end_offsets(name)[partition] < end for (_, partition), end in ends.items()):
        assert clock.monotonic_s() < until_s
        clock.sleep(0.05)
    reader.close()
    return name


@pytest.mark.timeout(240)
def test_executors_find_the_same_keys_and_the_driver_holds_a_page(
    log: Log, topic: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_OFFSETS_A_TASK", 500)
    reader, told = KafkaReader(log.bootstrap), list[int]()

    def living() -> LivingPages:
        return LivingPages(
            lambda version, after: stream.find_living(
                spark, reader, topic, log.bootstrap, {}, lambda: told.append(1), version, after
            )
        )

    expected = list(by_reader(reader, topic)(RECORDS // 2, b""))
    assert 100 < len(expected) < KEYS
    pages, after, of_one = list[list[bytes]](), b"", living()
    while page := of_one.page(RECORDS // 2, after, 97):
        pages.append(page)
        after = page[-1]
        if len(pages) == 3:
            of_one = living()  # a restart knows the last key alone
    assert [key for page in pages for key in page] == expected
    assert told, "while tasks are done somebody hears of it"
    assert living().page(0, b"", 10) == []
    reader.close()
