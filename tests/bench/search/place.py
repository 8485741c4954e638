"""Where the bench of searches takes place: a MariaDB with a shop of many orders, and an index of the same orders.

Four fifths of the orders belong to users with 200 each, the rest to users with 20,000 each, all spread over all of the
time. Documents are made from one assembled document of each business by putting in what tells orders apart, and
compared with what the assembler reads, before anything is measured. Each server has the same memory, caches and the
pages of its files together, and at least `TIMES` as much to hold.
"""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
import re
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import orjson
from pydantic import SecretStr

from demo.shop.connection import ShopServer
from demo.shop.generator import Shop
from include.clock import SystemClock
from include.document.database import DatabaseAddress
from include.document.reading.mysql import MysqlTables
from include.index.bulk.request import document_line
from include.index.identity import DocumentIdentity
from include.index.mapping.declared import creation
from include.index.server.elasticsearch import ElasticsearchIndex
from include.local.doctor import MOST_READ_AHEAD_KB, read_ahead_kb
from include.search.client import IndexSearch
from include.search.database import DatabaseDocuments
from include.search.database_mysql import PositionedMysql
from include.search.definition import FreshReads, SearchTarget
from include.search.engine import ElasticsearchEngine
from include.settings.connections import Elasticsearch
from tests.bench.search.memory_limit import MemoryGroup, memory_group
from tests.bench.servers import halves, served
from tests.support.search.shipped_search import shipped_target
from tests.support.servers.addresses import elasticsearch_url

__all__ = ["LONG", "ORDERS_OF_HISTORIES", "SHORT", "TIMES", "History", "SearchPlace", "search_placed"]

SHORT: Final = 200
LONG: Final = 20_000
History = Literal[200, 20_000]
"""Orders of a user."""
ORDERS_OF_HISTORIES: Final = 5 * LONG
"""The orders in all are a multiple of this: one user with a long history to 400 with short ones."""
TIMES: Final = 4
"""Data beside memory, at least."""
_FIRST_LONG: Final = 100_001
_FIRST_SHORT: Final = 200_001
_BUSINESSES: Final = 5
_LINES: Final = 6
_BULK: Final = 2_000
_WRITERS: Final = 2
_EPOCH: Final = dt.datetime(2026, 1, 1)
# Of the memory: what the database keeps pages in, and the index's heap; the rest is for everything else of theirs.
_POOL_SHARE: Final = 0.6
_HEAP_SHARE: Final = 0.4

# Every fifth order is of a user with a long history. `{n}` is the order's number.
_LONG_USER: Final = f"{_FIRST_LONG} + {{n}} DIV 5 MOD {{long}}"
_USER: Final = f"IF({{n}} MOD 5 = 0, {_LONG_USER}, {_FIRST_SHORT} + ({{n}} - {{n}} DIV 5) MOD {{short}})"
# 42 words of three letters, out of 4,096, and what is left.
_WORDS: Final = "REGEXP_REPLACE(SHA2(CONCAT({n}, '/', {line}), 512), '(...)', '\\\\1 ')"
_LINE: Final = (
    "SELECT NULL, {row}, l.seq, 1, CONCAT('Dish ', l.seq), "
    + _WORDS.format(n="{n}", line="l.seq")
    + f", 'Mains', l.seq, 5.00 FROM {{source}} JOIN seq_1_to_{_LINES} l"
)

_ROWS: Final = {
    "users": "SELECT n, CONCAT('Guest ', n), 'g@mail.example', '+00', '', NULL, 0, '2026-01-01' FROM"
    f" (SELECT {_FIRST_LONG} - 1 + seq AS n FROM seq_1_to_{{long}} UNION ALL"
    f" SELECT {_FIRST_SHORT} - 1 + seq FROM seq_1_to_{{short}}) u",
    "order_numbers": f"SELECT seq, {_USER.replace('{n}', 'seq')} FROM seq_{{first}}_to_{{last}}",
    "order_entries": "SELECT seq, (SELECT MIN(code) FROM channels), NULL, CONCAT('https://a.example/', seq), ''"
    " FROM seq_{first}_to_{last}",
    "addresses": f"SELECT seq, {_USER.replace('{n}', 'seq')}, CONCAT('Street ', seq), 'Town', LPAD(seq, 8, '0'), 'CH',"
    " 46 + seq MOD 4 / 4, 8, NULL FROM seq_{first}_to_{last}",
    # A pending row and a completed one of each order.
    "orders": "SELECT s.seq, (s.seq + 1) DIV 2, IF(s.seq MOD 2, NULL, s.seq - 1), 1,"
    f" IF(s.seq MOD 2, 'pending', 'completed'), {_USER.replace('{n}', '((s.seq + 1) DIV 2)')}, b.id, b.partner_id,"
    " (s.seq + 1) DIV 2, (s.seq + 1) DIV 2, NULL, 'EUR', 30, NULL,"
    " '2026-01-01' + INTERVAL (s.seq + 1) DIV 2 SECOND"
    " FROM seq_{twice_first}_to_{twice_last} s JOIN businesses b ON b.id = 1 + (s.seq + 1) DIV 2 MOD 5",
    "order_lines": _LINE.format(row="2 * o.seq", n="o.seq", source="seq_{first}_to_{last} o"),
}
_PART: Final = 20_000


@dataclass
class SearchPlace:
    """New orders go on from `orders`. `data_mb`: of each server, when it was filled."""

    shop: ShopServer
    index: ElasticsearchIndex
    target: SearchTarget
    orders: int
    users: dict[History, int]
    ports: dict[str, int]
    templates: list[dict[str, Any]]
    data_mb: dict[str, int]

    @property
    def name(self) -> str:
        """The concrete index."""
        return f"{self.target.search.index}-v1"

    def user(self, history: History, number: int) -> int:
        """One of the users with that many orders; all numbers do."""
        return (_FIRST_LONG if history == LONG else _FIRST_SHORT) + number % self.users[history]

    def user_of(self, number: int) -> int:
        """Whose order `number` is."""
        if number % 5 == 0:
            return _FIRST_LONG + number // 5 % self.users[LONG]
        return _FIRST_SHORT + (number - number // 5) % self.users[SHORT]

    def lines(self, number: int, row: int) -> str:
        """The SELECT of order `number`'s lines, of that row of `orders`."""
        return f"{_LINE.format(row=row, n=number, source='(SELECT 1) o')}"

    def body(self, number: int) -> dict[str, Any]:
        """The document of order `number`."""
        body = copy.deepcopy(self.templates[number % _BUSINESSES])
        made = (_EPOCH + dt.timedelta(seconds=number)).isoformat(timespec="microseconds") + "Z"
        body |= {
            "order_id": number,
            "order_row_id": 2 * number,
            "user_id": self.user_of(number),
            "created_at": made,
            "updated_at": made,
        }
        for line in body["lines"]:
            line["description"] = _words(number, line["line_no"])
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
            identity = DocumentIdentity(str(number), version)
            lines.append(document_line(0, identity, "order", body, orjson.dumps(metadata)).data)
        answer = self.index.bulk(self.name, b"".join(lines))
        if answer.items is None or any(item.status >= 300 for item in answer.items):
            raise SystemExit(f"documents were refused: {answer.reason or (answer.items and answer.items[0])}")

    def search(self) -> IndexSearch:
        """The client of the index."""
        return IndexSearch(self.target, self.index, ElasticsearchEngine(self.index.client), SystemClock())


def _words(number: int, line: int) -> str:
    return re.sub("(...)", r"\1 ", hashlib.sha512(f"{number}/{line}".encode()).hexdigest())


@contextmanager
def search_placed(orders: int, memory_mb: int) -> Iterator[SearchPlace]:
    """Both servers filled with `orders`, then left `memory_mb` each."""
    cores, _ = halves(apart=False)
    with (
        tempfile.TemporaryDirectory() as name,
        memory_group("mariadb") as first,
        memory_group("elasticsearch") as second,
        served(["mariadb"], Path(name) / "database", cores, within=first.inside()) as env,
        served(
            ["elasticsearch"],
            Path(name) / "index",
            cores,
            heap_mb=int(memory_mb * _HEAP_SHARE),
            within=second.inside(),
        ) as other,
    ):
        env |= other
        unique = f"b{uuid.uuid4().hex[:8]}"
        host, port = env["LYREBIRD_MYSQL_HOST"], int(env["LYREBIRD_MYSQL_PORT"])
        shop = ShopServer(host, port, "root", env["LYREBIRD_MYSQL_ROOT_PASSWORD"], unique)
        users: dict[History, int] = {LONG: orders // ORDERS_OF_HISTORIES, SHORT: orders * 4 // 5 // SHORT}
        _fill(shop, orders, users, int(memory_mb * _POOL_SHARE))
        index = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url(env)))
        target = _target(unique)
        index.create(f"{unique}-v1", _creation(unique, target, Path(name)))
        database = DatabaseDocuments(target, lambda: _tables(shop), SystemClock())
        templates = []
        for number in range(_BUSINESSES, 2 * _BUSINESSES):
            hit = database.by_id(str(number)).documents[str(number)]
            if hit is None:
                raise SystemExit("the shop's orders cannot be assembled")
            templates.append(dict(hit.body))
        ports = {"mariadb": port, "elasticsearch": int(env["LYREBIRD_ELASTICSEARCH"].rpartition(":")[2])}
        place = SearchPlace(shop, index, target, orders, users, ports, templates, {})
        _fill_index(place)
        _require_the_same(place, database)
        database.close()
        place.data_mb |= {"mariadb": _data_mb(shop), "elasticsearch": _index_mb(place)}
        _limit({"mariadb": first, "elasticsearch": second}, place.data_mb, memory_mb)
        yield place
        index.close()


def _creation(alias: str, target: SearchTarget, folder: Path) -> dict[str, Any]:
    """As shipped; on a disk with a large read-ahead files are read instead of mapped, which keeps it from mattering."""
    made = creation(alias, target.index, target.mapping)
    ahead_kb = read_ahead_kb(folder) or 0
    if ahead_kb > MOST_READ_AHEAD_KB:
        print(f"the disk reads {ahead_kb} KB ahead: the index's files are not mapped (niofs)", file=sys.stderr)
        made["settings"]["store.type"] = "niofs"
    return made


def _fill_index(place: SearchPlace) -> None:
    """All documents, then the segments as an index has them that has stood for a while: no merge is under way."""
    client, name = place.index.client, place.name
    shipped = client.indices.get_settings(index=name).body[name]["settings"]["index"].get("refresh_interval")
    client.indices.put_settings(index=name, settings={"index": {"refresh_interval": "-1"}})

    def fill(start: int) -> None:
        place.write(range(start, min(start + _BULK, place.orders + 1)))
        if start % (10 * _PART) == 1:
            print(f"{start - 1:,} of {place.orders:,} documents", file=sys.stderr)

    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(fill, range(1, place.orders + 1, _BULK)))
    client.indices.put_settings(index=name, settings={"index": {"refresh_interval": shipped}})
    place.index.refresh(name)
    client.indices.flush(index=name)
    while (merging := _merges(place)) > 0:
        print(f"{merging} merges under way", file=sys.stderr)
        time.sleep(5)
    # What was merged away is deleted only now.
    client.indices.flush(index=name, force=True)
    place.index.refresh(name)


def _merges(place: SearchPlace) -> int:
    stats = place.index.client.indices.stats(index=place.name, metric="merge").body
    return int(stats["indices"][place.name]["primaries"]["merges"]["current"])


def _limit(groups: dict[str, MemoryGroup], data_mb: dict[str, int], memory_mb: int) -> None:
    for name, group in groups.items():
        if data_mb[name] < TIMES * memory_mb:
            raise SystemExit(
                f"{name} holds {data_mb[name]:,} MB, less than {TIMES} times its memory of {memory_mb:,} MB: "
                "give more --orders or a smaller --memory-mb"
            )
        print(
            f"{name}: {data_mb[name]:,} MB of data, {group.used_mb():,} MB in memory before the limit", file=sys.stderr
        )
        group.limit(memory_mb)


def _data_mb(shop: ShopServer) -> int:
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = %s",
            (shop.database,),
        )
        row = cursor.fetchone()
    return int(row[0]) >> 20 if row else 0


def _index_mb(place: SearchPlace) -> int:
    stats = place.index.client.indices.stats(index=place.name, metric="store").body
    return int(stats["indices"][place.name]["primaries"]["store"]["size_in_bytes"]) >> 20


def _target(unique: str) -> SearchTarget:
    shipped = shipped_target()
    if shipped.document is None:
        raise SystemExit("the shipped search names no documents")
    fresh = FreshReads(patience_ms=0, reads_per_s=1e6, connections=2, recent=1000)
    return replace(
        shipped,
        search=shipped.search.model_copy(update={"index": unique, "fresh": fresh}),
        document=shipped.document.model_copy(update={"database": unique}),
    )


def _tables(shop: ShopServer) -> PositionedMysql:
    server = DatabaseAddress(host=shop.host, port=shop.port, user=shop.user, password=SecretStr(shop.password))
    return PositionedMysql(MysqlTables(server, shop.database), SystemClock())


def _fill(shop: ShopServer, orders: int, users: dict[History, int], pool_mb: int) -> None:
    shop.create_database()
    with Shop(shop.connect, 1, writers=1) as made:
        made.prepare()
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL innodb_buffer_pool_size = %s", (pool_mb << 20,))
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        cursor.execute("SET sql_log_bin = 0, foreign_key_checks = 0, unique_checks = 0")
        for table, rows in _ROWS.items():
            for first in [1] if table == "users" else range(1, orders + 1, _PART):
                last = min(orders, first + _PART - 1)
                select = rows.format(
                    first=first,
                    last=last,
                    twice_first=2 * first - 1,
                    twice_last=2 * last,
                    long=users[LONG],
                    short=users[SHORT],
                )
                print(f"filling {table}: {first - 1:,} of {orders:,}", file=sys.stderr)
                cursor.execute(f"INSERT INTO {table} {select}")
                connection.commit()
        cursor.execute(f"ANALYZE TABLE {', '.join(_ROWS)}")
        cursor.fetchall()


def _require_the_same(place: SearchPlace, database: DatabaseDocuments) -> None:
    """Users of either kind, as far as one answer goes: the database's share is what changed last."""
    for user in (place.user(SHORT, 0), place.user(SHORT, 1), place.user(LONG, 0)):
        read = database.of_user(user)
        bodies = {i: hit.body for i, hit in read.documents.items() if hit is not None}
        found = {hit.doc_id: hit.body for hit in place.search().of_user(user, 1000).hits}
        if found != bodies or not bodies:
            raise SystemExit(f"index and database do not hold the same: {len(found)} and {len(bodies)} of user {user}")
