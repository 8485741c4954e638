"""What the fallback's reads of a user with a long history cost the source's database."""

from __future__ import annotations

import dataclasses
from typing import Any

from include.clock import SystemClock
from include.document.database import DatabaseAddress
from include.document.reading.mysql import MysqlTables
from include.search.database import DatabaseDocuments
from include.search.database_mysql import PositionedMysql
from include.search.definition import FreshReads
from tests.support.search.order_document import DOCUMENT
from tests.support.search.shipped_search import shipped_target
from tests.support.source.query_cost import rows_read

_TABLE = """CREATE TABLE orders (id bigint PRIMARY KEY, order_id bigint NOT NULL, user_id bigint NOT NULL,
    state varchar(20) NOT NULL, created_at varchar(20) NOT NULL, KEY (user_id), KEY (order_id))"""


def test_a_user_with_twenty_thousand_orders_costs_about_a_pages_rows(mariadb: Any, unique: str) -> None:
    admin = mariadb.connect()
    with admin.cursor() as cursor:
        for statement in (
            f"CREATE DATABASE {unique}",
            f"USE {unique}",
            _TABLE,
            # Each order has two rows; every third row is another user's.
            "INSERT INTO orders SELECT seq, seq DIV 2, IF(seq % 6 < 2, 8, 7), 'completed', '2026' FROM seq_1_to_60000",
            "ANALYZE TABLE orders",
        ):
            cursor.execute(statement)
    server = DatabaseAddress(host=mariadb.host, port=mariadb.port, user="root", password=mariadb.root_password)
    tables = MysqlTables(server, unique)
    target = shipped_target()
    fresh = FreshReads(recent=20, connections=1)
    search = target.search.model_copy(update={"fresh": fresh})
    documents = DatabaseDocuments(
        dataclasses.replace(target, search=search, document=DOCUMENT),
        lambda: PositionedMysql(tables, SystemClock()),
        SystemClock(),
    )
    try:
        documents.of_user(7)
        reads = []
        cost = rows_read(tables, lambda: reads.append(documents.of_user(7, ["4", "5", "3", "999999"])))
        (read,) = reads
        assert len(read.documents) == 20
        assert read.more
        assert (read.held, "29999" in read.documents) == ({"4", "5"}, True)
        # Twice two rows an order, to find it and for its document; the rest is what the server tells of itself.
        assert cost < 400
    finally:
        documents.close()
        with admin.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {unique}")
        admin.close()
