"""Advertising on its own server beside the shop's: what it writes, and the truth over both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from demo.advertising.desk import AdvertisingDesk, at_work
from demo.advertising.plan import AdvertisingChange, changes, first_rows
from demo.advertising.truth import advertisers
from demo.shop.connection import ShopServer
from demo.shop.generator import Shop
from demo.shop.reference import reference_data
from include.clock import SystemClock

SEED = 7


@pytest.fixture(scope="module")
def servers(services: Callable[..., dict[str, str]]) -> tuple[ShopServer, ShopServer]:
    """The shop's server, and that of advertising, by the account that the stack gives them."""
    env = services("mariadb", "mariadb-ads")
    return ShopServer.from_environment("shop", env), ShopServer.from_environment("ads", env, "ADS")


@pytest.fixture
def own(services: Callable[..., dict[str, str]], unique: str) -> Iterator[tuple[ShopServer, ShopServer]]:
    """A database of this test on each of them."""
    env = services("mariadb", "mariadb-ads")
    root = {**env, "LYREBIRD_SHOP_USER": "root", "LYREBIRD_SHOP_PASSWORD": env["LYREBIRD_MYSQL_ROOT_PASSWORD"]}
    made = (
        ShopServer.from_environment(f"shop_{unique}", root),
        ShopServer.from_environment(f"ads_{unique}", root, "ADS"),
    )
    for server in made:
        server.create_database()
    yield made
    for server in made:
        query(server, f"DROP DATABASE {server.database}")


@pytest.fixture
def ads(own: tuple[ShopServer, ShopServer]) -> ShopServer:
    return own[1]


def query(server: ShopServer, sql: str) -> list[tuple[Any, ...]]:
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def modelled(count: int) -> dict[str, list[tuple[Any, ...]]]:
    """Rows by table after so many changes."""
    rows: dict[str, dict[Any, Any]] = {table: {row[0]: row for row in first} for table, first in first_rows().items()}
    for change in itertools.islice(changes(SEED), count):
        if change.row is None:
            del rows[change.table][change.row_id]
        else:
            rows[change.table][change.row_id] = change.row
    return {table: [each[number] for number in sorted(each)] for table, each in rows.items()}


def test_the_second_server_has_its_own_database_and_binlog(servers: tuple[ShopServer, ShopServer]) -> None:
    shop, ads = (query(server, "SELECT @@port, @@server_id, @@log_bin, @@binlog_format") for server in servers)
    assert (shop[0][1:], ads[0][1:]) == ((1, 1, "ROW"), (2, 1, "ROW"))
    assert shop[0][0] != ads[0][0]
    assert ("ads",) not in query(servers[0], "SHOW DATABASES")
    assert ("shop",) not in query(servers[1], "SHOW DATABASES")


def test_what_is_written_is_what_was_drawn(ads: ShopServer) -> None:
    clock = SystemClock()
    desk = AdvertisingDesk(ads.connect, SEED, clock)
    with at_work(desk, 500):
        while desk.written < 300:
            clock.sleep(0.02)
    expected = modelled(desk.written)
    for table, rows in expected.items():
        assert query(ads, f"SELECT * FROM {table} ORDER BY id") == rows


def test_a_second_run_keeps_what_is_there_and_writes_the_same_rows_again(ads: ShopServer) -> None:
    desk = AdvertisingDesk(ads.connect, SEED, SystemClock())
    desk.prepare()
    for change in itertools.islice(changes(SEED), 50):
        desk.write(change)
        desk.write(change)
    after = {table: query(ads, f"SELECT * FROM {table} ORDER BY id") for table in ("packages", "owners")}
    assert after == modelled(50)
    AdvertisingDesk(ads.connect, SEED + 1, SystemClock()).prepare()
    for table, rows in after.items():
        assert set(rows) <= set(query(ads, f"SELECT * FROM {table}"))


def test_the_truth_has_each_package_of_a_business_with_each_owner_or_with_none(
    own: tuple[ShopServer, ShopServer],
) -> None:
    shop_server, ads = own
    with Shop(shop_server.connect, SEED) as shop:
        shop.prepare()
    desk = AdvertisingDesk(ads.connect, SEED, SystemClock())
    desk.prepare()
    stranger = len(reference_data().businesses) + 1
    desk.write(AdvertisingChange("packages", 9_001, (9_001, stranger, "plus", "10.00", "trial", "2026-01-01")))
    with closing(shop_server.connect()) as there, closing(ads.connect()) as here:
        found = advertisers(there, here)
    packages, owners = first_rows()["packages"], first_rows()["owners"]
    pairs = {(package[1], package[0], owner[0]) for package in packages for owner in owners if package[1] == owner[1]}
    alone = {(p[1], p[0], None) for p in packages if p[1] not in {owner[1] for owner in owners}}
    assert pairs
    assert alone
    assert {(row["business_id"], row["package_id"], row["owner_id"]) for row in found} == pairs | alone
    assert len(found) == len(pairs | alone)
    phones = {owner[0]: str(owner[3]) for owner in owners}
    for row in found:
        assert row["business_name"] == f"Business {row['business_id']:03d}"
        if row["owner_id"] is not None:
            assert row["owner_phone"] == "*" * 11 + phones[row["owner_id"]][-3:]
