"""A shop on a real server, and an index of its orders that is filled by hand, up to a position of the shop's server."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import SecretStr

from demo.shop.connection import ShopServer
from demo.shop.generator import Shop
from demo.shop.truth import truth
from include.clock import ManualClock, SystemClock
from include.document.database import DatabaseAddress as Server
from include.document.reading.mysql import MysqlTables
from include.index.bulk.request import document_line
from include.index.identity import DocumentIdentity
from include.index.mapping.declared import creation
from include.index.progress.document import IndexProgress, ProgressKeeper
from include.index.server.elasticsearch import ElasticsearchIndex
from include.record.position import SourcePosition
from include.search.client import IndexSearch
from include.search.database import DatabaseDocuments
from include.search.database_mysql import PositionedMysql
from include.search.definition import SearchTarget
from include.search.engine import ElasticsearchEngine
from include.search.fresh import FreshSearch
from include.settings.connections import Elasticsearch
from tests.support.search.shipped_search import shipped_target

__all__ = ["ShopSearch", "shop_search"]

_ORDERS = 30


class ShopSearch:
    """The shop, the index, and readers of both."""

    def __init__(self, shop: ShopServer, index: ElasticsearchIndex, target: SearchTarget) -> None:
        self.shop, self.index, self.target = shop, index, target
        self.name = f"{target.search.index}-v1"
        info = index.create(self.name, creation(target.search.index, target.index, target.mapping))
        self.keeper = ProgressKeeper(index, info, target.topic, "test", ManualClock())
        self.progress: IndexProgress = self.keeper.claim()
        self.version = 0
        self.database = DatabaseDocuments(target, self.tables, SystemClock())

    def tables(self) -> PositionedMysql:
        server = Server(
            host=self.shop.host, port=self.shop.port, user=self.shop.user, password=SecretStr(self.shop.password)
        )
        return PositionedMysql(MysqlTables(server, self.shop.database), SystemClock())

    def more(self, seed: int, orders: int) -> None:
        with Shop(self.shop.connect, seed, writers=2, pace_s=0.0) as made:
            made.prepare()
            made.run(1000, orders=orders)
            made.quiesce()

    def position(self) -> SourcePosition:
        tables = self.tables()
        try:
            found = tables.newest()
        finally:
            tables.close()
        assert found is not None
        return found

    def told(self) -> dict[str, Any]:
        connection = self.shop.connect()
        try:
            return {str(body["order_id"]): body for body in truth(connection)}
        finally:
            connection.close()

    def history(self, user: int) -> list[Any]:
        own = [(body["created_at"], i, body) for i, body in self.told().items() if body["user_id"] == user]
        return [body for *_, body in sorted(own, key=lambda each: each[:2], reverse=True)]

    def index_all(self) -> None:
        at = self.position()
        lines = b""
        for doc_id, body in self.told().items():
            self.version += 1
            metadata = json.dumps({"doc_id": doc_id, "version": self.version, "deleted": False}).encode()
            lines += document_line(
                0, DocumentIdentity(doc_id, self.version), "order", json.dumps(body).encode(), metadata
            ).data
        answer = self.index.bulk(self.name, lines)
        assert answer.items is not None
        assert all(item.status in (200, 201) for item in answer.items)
        self.index.refresh(self.name)
        self.progress = dataclasses.replace(self.progress, complete=at, visible=at)
        self.keeper.save(self.progress)

    def plant(self, doc_id: str, body: dict[str, Any] | None) -> None:
        """Write a state that the database never had, and make it visible; None deletes."""
        self.version += 1
        metadata = json.dumps({"doc_id": doc_id, "version": self.version, "deleted": body is None}).encode()
        text = None if body is None else json.dumps(body).encode()
        line = document_line(0, DocumentIdentity(doc_id, self.version), "order", text, metadata)
        answer = self.index.bulk(self.name, line.data)
        assert answer.items is not None
        assert answer.items[0].status in (200, 201)
        self.index.refresh(self.name)

    def reader(self, engine: Any = None) -> FreshSearch:
        clock = SystemClock()
        index = IndexSearch(self.target, self.index, engine or ElasticsearchEngine(self.index.client), clock)
        return FreshSearch(index, self.database, clock)


@contextmanager
def shop_search(elasticsearch_url: str, mariadb: Any) -> Iterator[ShopSearch]:
    """Thirty orders, with all that happens to orders, indexed."""
    unique = f"t{uuid.uuid4().hex[:10]}"
    shop = ShopServer(mariadb.host, mariadb.port, "root", mariadb.root_password, unique)
    shop.create_database()
    index = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    shipped = shipped_target()
    assert shipped.document is not None
    fresh = shipped.search.fresh.model_copy(update={"patience_ms": 100, "reads_per_s": 1000})
    target = dataclasses.replace(
        shipped,
        search=shipped.search.model_copy(update={"index": unique, "fresh": fresh}),
        document=shipped.document.model_copy(update={"database": unique}),
    )
    made = ShopSearch(shop, index, target)
    made.more(3, _ORDERS)
    made.index_all()
    yield made
    made.database.close()
    index.client.indices.delete(index=made.name, ignore_unavailable=True)
    index.close()
    connection = shop.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {unique}")
    connection.close()
