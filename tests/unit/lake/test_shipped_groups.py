"""The groups that the project's own deployment declares, over changes of a table as capture writes them."""

from __future__ import annotations

import io
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from include.clock import ManualClock
from include.lake.definition import declared_groups, format_of
from include.lake.parsing.definition import ParserContext
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.reading.group_log import TopicIdPartition
from include.lake.reading.log_ranges import PortRanges
from include.lake.writing.planner import Range
from include.lake.writing.task import Task, TaskContext, run_task
from include.lake.writing.topic_pipelines import logics_of
from include.log.memory import MemoryLog
from include.log.ports import TopicSpec
from include.log.registry.memory import MemoryRegistry
from include.record.change import Change, SourceBlock
from include.record.codec import Encoder
from include.record.schema import Column, TableSchema
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from include.store.memory import MemoryStore

TOPIC = "cdc.shop.shop.lines"
NAMES = "KAFKA REGISTRY ELASTICSEARCH S3 S3_ACCESS_KEY S3_SECRET_KEY MYSQL_HOST MYSQL_PORT MYSQL_USER MYSQL_PASSWORD"
TABLE = TableSchema(
    "shop",
    "lines",
    (
        Column("id", "bigint"),
        Column("name", "varchar", length=40, charset="utf8mb4"),
        Column("price", "decimal", precision=14, scale=2),
        Column("at", "datetime", digits=6),
    ),
    ("id",),
)
DAY_US = 86_400_000_000
NOON_US = 1_795_000_000_000_000 // DAY_US * DAY_US + DAY_US // 2


def change(op: Any, number: int, at_us: int) -> Change:
    row = {"id": number, "name": f"line {number}", "price": Decimal("3.50"), "at": at_us}
    source = SourceBlock("1", "shop", "shop", "lines", 1, "bin.1", 4, 0, at_us)
    return Change(op, row if op == "d" else None, None if op == "d" else row, source, at_us + 5_000)


class Shop:
    """A log with one change topic: three rows of one day, one of the next with its deletion and tombstone."""

    def __init__(self, folder: Path) -> None:
        self.deployment = Deployment.load(
            PROJECT_ROOT / "include" / "deployment", {f"LYREBIRD_{name}": "127.0.0.1:1" for name in NAMES.split()}
        )
        self.folder, self.clock = folder, ManualClock(NOON_US + DAY_US)
        self.log, self.store, self.registry = MemoryLog(self.clock), MemoryStore(), MemoryRegistry()
        schema = TABLE.envelope_avro("shop")
        encode = Encoder(self.registry.register(f"{TOPIC}-value", schema, "NONE"), schema)
        self.log.admin().ensure(TopicSpec(TOPIC, 1))
        writer = self.log.writer("capture")
        writer.begin()
        for number in (1, 2, 3):
            writer.append(TOPIC, b"k", encode(change("r", number, NOON_US).envelope()), partition=0)
        writer.append(TOPIC, b"k", encode(change("c", 4, NOON_US + DAY_US).envelope()), partition=0)
        writer.append(TOPIC, b"k", encode(change("d", 4, NOON_US + DAY_US).envelope()), partition=0)
        writer.append(TOPIC, b"k", None, partition=0)
        writer.commit()

    def stored(self, name: str) -> Commit:
        """The one cut that a group makes of it."""
        group = declared_groups(self.deployment)[name]
        info = self.log.admin().describe(TOPIC)
        assert info is not None
        assert group.wants(TOPIC)
        context = ParserContext(self.deployment.folder, self.registry)
        end = self.log.reader().end_offsets(TOPIC)[0]
        tp = TopicIdPartition(TOPIC, info.named_id, 0)
        task = Task(name, group.prefix, Range(tp, 0, end, "age", ""), 1, 0, 1 << 30, 1000, "here")
        ranges = PortRanges(self.log.reader(), self.log.admin())
        logics = logics_of(name, group, TOPIC, context)
        outcome = run_task(task, TaskContext(self.store, ranges, logics, self.folder, self.clock))
        assert outcome.error is None
        chain = ChainKey(TopicKey(group.prefix, TOPIC, info.named_id), 1, 0)
        (commit,) = Chain(self.store, chain).commits()
        return commit

    def read(self, name: str, key: str) -> list[Any]:
        found = self.store.get(key)
        assert found is not None
        rule = declared_groups(self.deployment)[name].rules[0]
        return list(format_of(rule.format, self.registry).read(io.BytesIO(found.body)))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_the_backup_keeps_every_record_whole(shop: Shop) -> None:
    commit = shop.stored("raw")
    (file,) = commit.files
    messages = shop.read("raw", file.key)
    assert [message.offset for message in messages] == [0, 1, 2, 3, 4, 5]
    assert messages[5].value is None
    assert messages[0].value is not None
    assert (commit.filtered, commit.quarantined) == (0, 0)


def test_the_changes_are_filed_by_the_day_of_their_commit_and_tombstones_left_out(shop: Shop) -> None:
    commit = shop.stored("by_date")
    assert (commit.n_records, commit.filtered, commit.quarantined) == (6, 1, 0)
    found: Counter[str] = Counter()
    for file in commit.files:
        day, schema = file.key.split("/")[2:4]
        assert schema.startswith("schema=")
        rows = shop.read("by_date", file.key)
        found[day] += len(rows)
    assert sorted(found.values()) == [2, 3]
    assert all(day.startswith("dt=2026-1") for day in found)
