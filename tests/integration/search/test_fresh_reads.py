"""Fresh reads on real servers: the shop goes on writing while nothing is indexed, and a reader sees its own writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import SecretStr

from include.clock import SystemClock
from include.document.database import DatabaseAddress as Server
from include.document.reading.mysql import MysqlTables
from include.index.server.elasticsearch import ElasticsearchIndex
from include.search.client import IndexSearch
from include.search.database import DatabaseDocuments
from include.search.database_mysql import PositionedMysql
from include.search.engine import ElasticsearchEngine
from include.search.fresh import FreshSearch
from include.settings.connections import Elasticsearch
from tests.support.search.shop_search import ShopSearch


def all_of(ask: Callable[[str | None], Any]) -> tuple[list[Any], set[str]]:
    bodies, origins, after = [], set(), None
    while True:
        page = ask(after)
        assert page.seen.fresh
        bodies += [hit.body for hit in page.hits]
        origins.add(page.seen.origin)
        after = page.next
        if after is None:
            return bodies, origins


def test_while_nothing_is_indexed_each_user_sees_all_own_writes_and_each_order_reads_as_the_shop_says(
    world: ShopSearch,
) -> None:
    world.index_all()
    users = {body["user_id"] for body in world.told().values()}
    written = str(world.position().gtids)
    reader = world.reader()
    for user in sorted(users)[:5]:
        found, origins = all_of(partial(reader.of_user, user, 3, written=written))
        assert (found, origins) == (world.history(user), {"index"})
    # From here on indexing stands still.
    before = world.told().keys()
    world.more(4, 10)
    written = str(world.position().gtids)
    changed = [body for i, body in world.told().items() if i not in before]
    assert changed
    behind = reader.index.of_user(changed[0]["user_id"], 100)
    for user in sorted({body["user_id"] for body in changed})[:5]:
        found, origins = all_of(partial(reader.of_user, user, 3, written=written))
        assert (found, origins) == (world.history(user), {"index+mysql"})
    assert [hit.body for hit in behind.hits] != world.history(changed[0]["user_id"])
    latest = world.history(changed[0]["user_id"])[0]
    page = reader.of_user(changed[0]["user_id"], latest=str(latest["order_id"]))
    assert latest in [hit.body for hit in page.hits]
    hit, seen = reader.one(str(latest["order_id"]), written)
    assert hit is not None
    assert (hit.body, seen.origin) == (latest, "mysql")
    # Indexing goes on: the database is left alone again.
    world.index_all()
    hit, seen = world.reader().one(str(latest["order_id"]), written)
    assert hit is not None
    assert (hit.body, seen.origin) == (latest, "index")


def test_without_the_search_server_the_database_answers_with_the_same_documents(world: ShopSearch) -> None:
    away = ElasticsearchIndex(Elasticsearch(url="http://127.0.0.1:1"))
    clock = SystemClock()
    reader = FreshSearch(
        IndexSearch(world.target, away, ElasticsearchEngine(away.client), clock), world.database, clock
    )
    user = next(iter(world.told().values()))["user_id"]
    found, origins = all_of(lambda after: reader.of_user(user, 2, after))
    assert (found, origins) == (world.history(user), {"mysql"})
    page = reader.of_user(user, 2)
    assert page.seen.position is not None
    assert page.seen.position.gtids == world.position().gtids
    away.close()


def test_a_connection_that_the_server_gave_up_is_made_anew(world: ShopSearch, mariadb: Any) -> None:
    doc_id, body = next(iter(world.told().items()))
    for _ in range(2):
        hit = world.database.by_id(doc_id).documents[doc_id]
        assert hit is not None
        assert hit.body == body
        with mariadb.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM information_schema.processlist WHERE db = %s AND command = 'Sleep'",
                (world.shop.database,),
            )
            for (number,) in cursor.fetchall():
                cursor.execute(f"KILL {number}")


def test_an_account_that_may_not_ask_for_positions_reads_without_them(world: ShopSearch, mariadb: Any) -> None:
    name = world.shop.database
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY 'x'")
        cursor.execute(f"GRANT SELECT ON {name}.* TO {name}@'127.0.0.1'")
    try:
        server = Server(host=world.shop.host, port=world.shop.port, user=name, password=SecretStr("x"))
        tables = PositionedMysql(MysqlTables(server, name), SystemClock())
        documents = DatabaseDocuments(world.target, lambda: tables, SystemClock())
        doc_id, body = next(iter(world.told().items()))
        read = documents.by_id(doc_id)
        hit = read.documents[doc_id]
        assert hit is not None
        assert (hit.body, read.position) == (body, None)
        documents.close()
    finally:
        with mariadb.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP USER {name}@'127.0.0.1'")
