"""Expectations read a topic as its serving index was filled from it: numbers of partitions and floors included."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.audit.expectations.feeds import feeds_of
from include.clock import ManualClock
from include.errors import Terminal
from include.index.definition import index_named
from include.index.feed import PartitionNumber
from include.index.mapping.declared import creation
from include.index.progress.document import IndexProgress, ProgressKeeper
from include.index.server.memory import MemoryIndex
from include.settings.deployment import Deployment
from tests.support.documents.topic import MAPPING

FILES = """\
cluster: {name: local, type: test}
indexes:
  orders: {application: a, topic: docs, entity: order, mapping: m.json, versions: offset}
audits:
  nightly: {index: orders}
expectations:
  docs: {expect: {once: {ExpectColumnValuesToBeUnique: {column: doc_id}}}}
"""


def deployment(folder: Path) -> Deployment:
    (folder / "all.yaml").write_text(FILES)
    return Deployment.load(folder, {})


def test_floors_and_numbers_of_partitions_come_from_the_index(tmp_path: Path) -> None:
    declared, index = deployment(tmp_path), MemoryIndex()
    info = index.create("orders-v1", creation("orders", index_named(declared, "orders"), MAPPING))
    keeper = ProgressKeeper(index, info, "docs", "test", ManualClock())
    keeper.claim()
    keeper.save(IndexProgress("docs", floors={"shop.orders": 7, "shop.users": 3}, partitions=(PartitionNumber(3),)))
    feed = feeds_of(declared, "nightly", index)["docs"]
    assert (feed.name, feed.floor, feed.versions) == ("docs", 7, "offset")
    assert [each.number for each in feed.numbers] == [3]


def test_an_alias_without_an_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Terminal, match="no index serves this alias"):
        feeds_of(deployment(tmp_path), "nightly", MemoryIndex())
