"""Where the bench of searches takes place: a MariaDB with a shop of many orders, and an index of the same orders.

Every user has 200 orders, spread over all of the time. Documents are made from one assembled document of each business
by putting in what tells orders apart, and compared with what the assembler reads, before anything is measured.
"""

from __future__ import annotations

import copy
import datetime as dt
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from include.clock import SystemClock
from include.document.database import Database
from include.document.mysql import MysqlTables
from include.index.bulk import document_line
from include.index.elasticsearch import ElasticsearchIndex
from include.index.identity import Identity
from include.index.mapping import creation
from include.local.shop.connection import ShopServer
from include.local.shop.generator import Shop
from include.search.client import IndexSearch
from include.search.database import DatabaseDocuments
from include.search.database_mysql import PositionedMysql
from include.search.definition import Fresh, Target
from include.search.engine import ElasticsearchEngine
from include.settings.connections import Elasticsearch
from tests.bench.place import halves, served
from tests.search_world import shipped_target

__all__ = ["ORDERS_OF_A_USER", "SearchPlace", "search_placed"]

ORDERS_OF_A_USER: Final = 200
_BUSINESSES: Final = 5
_BULK: Final = 5_000
_EPOCH: Final = dt.datetime(2026, 1, 1)

_ROWS: Final = {
    "users": "SELECT 100000 + seq, CONCAT('Guest ', seq), 'g@mail.example', '+00', '', NULL, 0, '2026-01-01'"
    " FROM seq_1_to_{users}",
    "order_numbers": "SELECT seq, 100001 + seq MOD {users} FROM seq_1_to_{n}",
    "order_entries": "SELECT seq, (SELECT MIN(code) FROM channels), NULL, CONCAT('https://a.example/', seq), ''"
    " FROM seq_1_to_{n}",
    "addresses": "SELECT seq, 100001 + seq MOD {users}, CONCAT('Street ', seq), 'Town', LPAD(seq, 8, '0'), 'CH',"
    " 46 + seq MOD 4 / 4, 8, NULL FROM seq_1_to_{n}",
    # A pending row and a completed one of each order.
    "orders": "SELECT s.seq, (s.seq + 1) DIV 2, IF(s.seq MOD 2, NULL, s.seq - 1), 1,"
    " IF(s.seq MOD 2, 'pending', 'completed'), 100001 + (s.seq + 1) DIV 2 MOD {users}, b.id, b.partner_id,"
    " (s.seq + 1) DIV 2, (s.seq + 1) DIV 2, NULL, 'EUR', 30, NULL,"
    " '2026-01-01' + INTERVAL (s.seq + 1) DIV 2 SECOND"
    " FROM seq_1_to_{twice} s JOIN businesses b ON b.id = 1 + (s.seq + 1) DIV 2 MOD 5",
    "order_lines": "SELECT NULL, 2 * o.seq, l.seq, 1, CONCAT('Dish ', l.seq), 'With everything', 'Mains', l.seq, 5.00"
    " FROM seq_1_to_{n} o JOIN seq_1_to_3 l",
}


@dataclass
class SearchPlace:
    """`users` are numbered from 100001; new orders go on from `orders`."""

    shop: ShopServer
    index: ElasticsearchIndex
    target: Target
    orders: int
    users: int
    ports: dict[str, int]
    templates: list[dict[str, Any]]

    @property
    def name(self) -> str:
        """The concrete index."""
        return f"{self.target.search.index}-v1"

    def body(self, number: int) -> dict[str, Any]:
        """The document of order `number`."""
        body = copy.deepcopy(self.templates[number % _BUSINESSES])
        made = (_EPOCH + dt.timedelta(seconds=number)).isoformat(timespec="microseconds") + "Z"
        body |= {
            "order_id": number,
            "order_row_id": 2 * number,
            "user_id": 100_001 + number % self.users,
            "created_at": made,
            "updated_at": made,
        }
        body["entry"]["referrer"] = f"https://a.example/{number}"
        body["delivery_address"] |= {
            "street": f"Street {number}",
            "postal_code": f"{number:08}",
            "location": {"lat": 46 + number % 4 / 4, "lon": 8.0},
        }
        return body

    def write(self, numbers: range | list[int], version: int = 1) -> None:
        """Index these orders."""
        lines = []
        for number in numbers:
            metadata = {
                "cluster_name": "bench",
                "cluster_type": "bench",
                "topic": "assembled_order",
                "partition": 0,
                "offset": number,
                "doc_id": str(number),
                "version": version,
                "generation": 1,
                "deleted": False,
                "d0": number,
                "d1": number,
                "s0": number & 0xFFFFFF,
                "s1": number & 0xFFFFFF,
            }
            body = orjson.dumps(self.body(number), option=orjson.OPT_SORT_KEYS)
            identity = Identity(str(number), version)
            lines.append(document_line(0, identity, "order", body, orjson.dumps(metadata)).data)
        answer = self.index.bulk(self.name, b"".join(lines))
        if answer.items is None or any(item.status >= 300 for item in answer.items):
            raise SystemExit(f"documents were refused: {answer.reason or (answer.items and answer.items[0])}")

    def pool(self, mb: int) -> None:
        """Give the database a buffer pool of this size."""
        with self.shop.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET GLOBAL innodb_buffer_pool_size = %s", (mb << 20,))

    def search(self) -> IndexSearch:
        """The client of the index."""
        return IndexSearch(self.target, self.index, ElasticsearchEngine(self.index.client), SystemClock())


@contextmanager
def search_placed(orders: int, pool_mb: int) -> Iterator[SearchPlace]:
    """Both servers filled; the database's buffer pool of `pool_mb`, the index's heap of 1 GB."""
    cores, _ = halves(apart=False)
    with (
        tempfile.TemporaryDirectory() as name,
        served(["mariadb", "elasticsearch"], Path(name) / "stack", cores) as env,
    ):
        unique = f"b{uuid.uuid4().hex[:8]}"
        host, port = env["LYREBIRD_MYSQL_HOST"], int(env["LYREBIRD_MYSQL_PORT"])
        shop = ShopServer(host, port, "root", env["LYREBIRD_MYSQL_ROOT_PASSWORD"], unique)
        users = max(1, orders // ORDERS_OF_A_USER)
        _fill(shop, orders, users, pool_mb)
        index = ElasticsearchIndex(Elasticsearch(url=env["LYREBIRD_ELASTICSEARCH"]))
        target = _target(unique)
        index.create(f"{unique}-v1", creation(unique, target.index, target.mapping))
        database = DatabaseDocuments(target, lambda: _tables(shop), SystemClock())
        templates = []
        for number in range(_BUSINESSES, 2 * _BUSINESSES):
            hit = database.by_id(str(number)).documents[str(number)]
            if hit is None:
                raise SystemExit("the shop's orders cannot be assembled")
            templates.append(dict(hit.body))
        ports = {"mariadb": port, "elasticsearch": int(env["LYREBIRD_ELASTICSEARCH"].rpartition(":")[2])}
        place = SearchPlace(shop, index, target, orders, users, ports, templates)
        for start in range(1, orders + 1, _BULK):
            place.write(range(start, min(start + _BULK, orders + 1)))
            if start % 100_000 == 1:
                print(f"{start - 1:,} of {orders:,} documents", file=sys.stderr)
        index.refresh(place.name)
        _require_the_same(place, database)
        database.close()
        yield place
        index.close()


def _target(unique: str) -> Target:
    shipped = shipped_target()
    if shipped.document is None:
        raise SystemExit("the shipped search names no documents")
    fresh = Fresh(patience_ms=0, reads_per_s=1e6, connections=2, recent=1000)
    return replace(
        shipped,
        search=shipped.search.model_copy(update={"index": unique, "fresh": fresh}),
        document=shipped.document.model_copy(update={"database": unique}),
    )


def _tables(shop: ShopServer) -> PositionedMysql:
    server = Database(host=shop.host, port=shop.port, user=shop.user, password=shop.password)
    return PositionedMysql(MysqlTables(server, shop.database), SystemClock())


def _fill(shop: ShopServer, orders: int, users: int, pool_mb: int) -> None:
    shop.create_database()
    with Shop(shop.connect, 1, writers=1) as made:
        made.prepare()
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL innodb_buffer_pool_size = %s", (pool_mb << 20,))
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        cursor.execute("SET sql_log_bin = 0, foreign_key_checks = 0, unique_checks = 0")
        for table, rows in _ROWS.items():
            print(f"filling {table}", file=sys.stderr)
            cursor.execute(f"INSERT INTO {table} {rows.format(n=orders, twice=2 * orders, users=users)}")
            connection.commit()
        cursor.execute(f"ANALYZE TABLE {', '.join(_ROWS)}")
        cursor.fetchall()


def _require_the_same(place: SearchPlace, database: DatabaseDocuments) -> None:
    for user in (100_001, 100_001 + place.users // 2):
        read = database.of_user(user)
        bodies = {i: hit.body for i, hit in read.documents.items() if hit is not None}
        found = {hit.doc_id: hit.body for hit in place.search().of_user(user, 1000).hits}
        if found != bodies or not bodies:
            raise SystemExit(f"index and database do not hold the same: {len(found)} and {len(bodies)} of user {user}")
