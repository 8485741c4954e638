"""The shop on a real server: what it writes, what it leaves when it is killed, and the truth about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from demo.shop.command import command
from demo.shop.connection import ShopServer
from demo.shop.counts import CommittedRow
from demo.shop.errand import ORDERS_PER_ERRAND, plan_errand
from demo.shop.generator import Shop
from demo.shop.plan import plan_order
from demo.shop.privacy import private_texts
from demo.shop.reference import reference_data
from demo.shop.schema import TABLES
from demo.shop.truth import truth
from include.clock import SystemClock
from include.errors import SettingsError, Terminal, Transient

SEED, ORDERS = 5, 200
MADE_BY_THE_RUN = ("order_id", "order_row_id", "created_at", "updated_at")


@pytest.fixture
def server(mariadb: Any, unique: str) -> Iterator[ShopServer]:
    server = ShopServer(mariadb.host, mariadb.port, "root", mariadb.root_password, f"shop_{unique}")
    server.create_database()
    yield server
    query(server, f"DROP DATABASE {server.database}")


def query(server: ShopServer, sql: str) -> list[tuple[Any, ...]]:
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())
    finally:
        connection.close()


def true_bodies(server: ShopServer, order_id: int | None = None) -> list[dict[str, Any]]:
    connection = server.connect()
    try:
        return list(truth(connection, order_id))
    finally:
        connection.close()


def run_to_rest(server: ShopServer, orders: int = ORDERS, writers: int = 4) -> list[CommittedRow]:
    events: list[CommittedRow] = []
    with Shop(server.connect, SEED, writers=writers, pace_s=0.02) as shop:
        shop.prepare()
        shop.run(1000, orders=orders, on_event=events.append)
        shop.quiesce(events.append)
        assert shop.counts.placed == orders
        assert shop.in_flight == 0
    return events


def modelled(orders: int) -> list[dict[str, Any]]:
    """The bodies by the plans alone, without what only the run decides (ids and times)."""
    reference = reference_data()
    verticals = {row[0]: row[2] for row in reference.rows["verticals"]}
    vertical_of: dict[int, Any] = {each.business_id: each.vertical_id for each in reference.businesses}
    partners: dict[int, dict[str, Any]] = {
        int(str(row[0])): {"name": row[1], "site": row[2]} for row in reference.rows["partners"]
    }
    policies = {
        row[0]: {"name": row[1], "free_until_minutes": row[2]} for row in reference.rows["cancellation_policies"]
    }
    errands = [plan_errand(SEED, number, reference) for number in range(-(-orders // ORDERS_PER_ERRAND))]
    assert any(errand.alters_documents for errand in errands) or orders < ORDERS
    for errand in errands:
        if errand.table == "businesses" and "vertical_id" in errand.values:
            vertical_of[errand.row_id] = errand.values["vertical_id"]
        if errand.table == "partners":
            partners[errand.row_id].update({k: v for k, v in errand.values.items() if k in {"name", "site"}})
    bodies = []
    for number in range(orders):
        plan = plan_order(SEED, number, reference)
        row = [row for row in plan.rows() if row.state != "pending"][-1]
        to = row.address
        bodies.append(
            {
                "state": row.state,
                "total_price": str(sum(line.quantity * line.price for line in row.lines)),
                "currency": plan.business.currency,
                "user_id": plan.user_id,
                "business_id": plan.business.business_id,
                "vertical": verticals[vertical_of[plan.business.business_id]],
                "entry": {
                    "channel": plan.entry.channel,
                    "campaign": plan.entry.campaign,
                    "referrer": plan.entry.referrer,
                },
                "delivery_address": {
                    "street": to.street,
                    "city": to.city,
                    "postal_code": to.postal_code,
                    "country": to.country,
                    "location": {"lat": to.lat, "lon": to.lon},
                },
                "lines": [
                    {
                        "line_no": line.line_no,
                        "name": line.name,
                        "description": line.description,
                        "category": line.category,
                        "quantity": line.quantity,
                        "price": str(line.price),
                    }
                    for line in row.lines
                ],
                "partner": partners[plan.business.partner_id],
                "cancellation_policy": policies.get(plan.policy_id),
                "rollback_cause": row.rollback_cause,
            }
        )
    return bodies


def without_ids_and_times(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in body.items() if name not in MADE_BY_THE_RUN} for body in bodies]


def as_bag(bodies: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(body, sort_keys=True) for body in bodies)


def test_the_truth_is_what_the_plans_say(server: ShopServer) -> None:
    run_to_rest(server)
    assert as_bag(without_ids_and_times(true_bodies(server))) == as_bag(modelled(ORDERS))


def test_one_writer_makes_the_same_orders_in_their_order(server: ShopServer) -> None:
    run_to_rest(server, orders=50, writers=1)
    bodies = true_bodies(server)
    assert [body["order_id"] for body in bodies] == list(range(1, 51))
    assert without_ids_and_times(bodies) == modelled(50)


def test_events_name_each_row_that_became_an_order(server: ShopServer) -> None:
    newest: dict[int, CommittedRow] = {}
    for event in run_to_rest(server, orders=50):
        if event.final and (event.order_id not in newest or event.order_row_id > newest[event.order_id].order_row_id):
            newest[event.order_id] = event
    assert {body["order_id"]: body["order_row_id"] for body in true_bodies(server)} == {
        order_id: event.order_row_id for order_id, event in newest.items()
    }


def test_rows_of_an_order_are_one_list_in_the_order_of_their_ids(server: ShopServer) -> None:
    run_to_rest(server, orders=100)
    rows = query(server, "SELECT order_id, id, previous_id FROM orders ORDER BY order_id, id")
    before: dict[int, int] = {}
    for order_id, row_id, previous_id in rows:
        assert previous_id == before.get(order_id)
        before[order_id] = row_id
    assert len(before) == 100


def test_every_table_has_rows_and_no_row_points_nowhere(server: ShopServer) -> None:
    run_to_rest(server)
    for table in TABLES:
        assert query(server, f"SELECT COUNT(*) FROM {table}") != [(0,)], table
    keys = query(
        server,
        "SELECT table_name, column_name, referenced_table_name, referenced_column_name"
        " FROM information_schema.key_column_usage"
        " WHERE table_schema = DATABASE() AND referenced_table_name IS NOT NULL",
    )
    assert len(keys) >= 20
    for table, column, parent, parent_column in keys:
        orphans = query(
            server,
            f"SELECT COUNT(*) FROM {table} c LEFT JOIN {parent} p ON p.{parent_column} = c.{column}"
            f" WHERE c.{column} IS NOT NULL AND p.{parent_column} IS NULL",
        )
        assert orphans == [(0,)], (table, column)


def test_preparing_again_keeps_what_the_shop_changed(server: ShopServer) -> None:
    with Shop(server.connect, SEED) as shop:
        shop.prepare()
        connection = server.connect()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE partners SET name = 'Renamed' WHERE id = 1")
        connection.commit()
        connection.close()
        shop.prepare()
    assert query(server, "SELECT name FROM partners WHERE id = 1") == [("Renamed",)]
    assert query(server, "SELECT COUNT(*) FROM users") == [(reference_data().users,)]


def test_no_private_text_stands_in_the_truth(server: ShopServer) -> None:
    run_to_rest(server)
    text = json.dumps(true_bodies(server), ensure_ascii=False)
    connection = server.connect()
    private = list(private_texts(connection))
    connection.close()
    assert len(private) > 1000
    assert [(field, value) for field, value in private if value in text] == []


def test_orders_that_are_still_pending_are_not_in_the_truth(server: ShopServer) -> None:
    with Shop(server.connect, SEED, pace_s=3600) as shop:
        shop.prepare()
        shop.run(1000, orders=10)
        assert shop.in_flight == 10
        assert true_bodies(server) == []
        shop.quiesce()
    assert len(true_bodies(server)) == 10


def test_connections_that_are_cut_lose_and_repeat_nothing(server: ShopServer) -> None:
    seen: list[CommittedRow] = []

    def cut_all(event: CommittedRow) -> None:
        seen.append(event)
        if len(seen) in {40, 120, 200}:
            connection = server.connect()
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
                )
                for (each,) in cursor.fetchall():
                    cursor.execute("KILL CONNECTION %s", (each,))
            connection.close()

    with Shop(server.connect, SEED, pace_s=0.02) as shop:
        shop.prepare()
        shop.run(1000, orders=ORDERS, on_event=cut_all)
        shop.quiesce(cut_all)
        assert shop.counts.repeats > 0
    assert as_bag(without_ids_and_times(true_bodies(server))) == as_bag(modelled(ORDERS))
    assert query(server, "SELECT COUNT(*) FROM orders") == [(len(seen),)]


def test_a_killed_generator_leaves_whole_orders_and_another_goes_on(server: ShopServer) -> None:
    environment = {
        **os.environ,
        "LYREBIRD_MYSQL_HOST": server.host,
        "LYREBIRD_MYSQL_PORT": str(server.port),
        "LYREBIRD_SHOP_USER": server.user,
        "LYREBIRD_SHOP_PASSWORD": server.password,
    }
    arguments = ["run", "--rate", "300", "--database", server.database]
    program = f"from demo.shop.command import command; command({arguments!r})"
    with Shop(server.connect, SEED) as shop:
        shop.prepare()
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL)
    try:
        clock = SystemClock()
        while query(server, "SELECT COUNT(*) FROM orders")[0][0] < 100:
            assert process.poll() is None
            clock.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    # The server notices the dead client by itself and rolls its open transactions back.
    placed = query(server, "SELECT COUNT(DISTINCT order_id) FROM orders")[0][0]
    without_lines = "SELECT COUNT(*) FROM orders o LEFT JOIN order_lines l ON l.order_row_id = o.id WHERE l.id IS NULL"
    assert query(server, without_lines) == [(0,)]
    wrong_totals = (
        "SELECT COUNT(*) FROM orders o WHERE o.total_price <>"
        " (SELECT SUM(quantity * price) FROM order_lines l WHERE l.order_row_id = o.id)"
    )
    assert query(server, wrong_totals) == [(0,)]
    run_to_rest(server, orders=20)
    assert query(server, "SELECT COUNT(DISTINCT order_id) FROM orders")[0][0] >= placed + 20


def test_a_run_can_be_stopped_by_its_listener_and_goes_on_later(server: ShopServer) -> None:
    with Shop(server.connect, SEED, pace_s=0.02) as shop:
        shop.prepare()
        shop.run(500, on_event=lambda _: shop.stop())
        placed = shop.counts.placed
        assert placed >= 1
        assert shop.run(500, orders=10).placed == 10
        assert shop.counts.placed == placed + 10


def test_the_first_error_of_a_writer_ends_the_run(server: ShopServer) -> None:
    def refuse(_: CommittedRow) -> None:
        raise ValueError("the listener has seen enough")

    with Shop(server.connect, SEED) as shop:
        shop.prepare()
        with pytest.raises(ValueError, match="seen enough"):
            shop.run(100, orders=1000, on_event=refuse)


def test_the_commands_apply_run_and_print_the_truth(server: ShopServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYREBIRD_MYSQL_HOST", server.host)
    monkeypatch.setenv("LYREBIRD_MYSQL_PORT", str(server.port))
    monkeypatch.setenv("LYREBIRD_SHOP_USER", server.user)
    monkeypatch.setenv("LYREBIRD_SHOP_PASSWORD", server.password)

    def call(*arguments: str) -> Any:
        return CliRunner().invoke(command, [*arguments, "--database", server.database])

    assert json.loads(call("apply", "--json").output)["tables"] == list(TABLES)
    summary = json.loads(call("run", "--rate", "200", "--orders", "20", "--pace", "0.02", "--json").stdout)
    assert summary["placed"] == 20
    assert summary["transactions"] > 40
    lines = call("truth").output.splitlines()
    assert [json.loads(line) for line in lines] == true_bodies(server)
    assert json.loads(call("truth", "--json").output) == true_bodies(server)
    assert json.loads(call("truth", "--order", "7").output) == true_bodies(server, 7)[0]
    plain = call("run", "--rate", "200", "--seconds", "0.1", "--pace", "0.02")
    assert "orders placed" in plain.stdout
    missing = call("truth", "--order", "999999")
    assert isinstance(missing.exception, SettingsError)


def test_a_wrong_password_and_a_missing_database_say_what_to_do(server: ShopServer) -> None:
    with pytest.raises(Terminal, match="LYREBIRD_SHOP_PASSWORD"):
        ShopServer(server.host, server.port, "nobody_here", "wrong", server.database).connect()
    with pytest.raises(Terminal, match="lyrebird shop apply"):
        ShopServer(server.host, server.port, server.user, server.password, f"{server.database}_none").connect()


def test_a_server_that_does_not_answer_is_worth_another_try() -> None:
    with pytest.raises(Transient, match="lyrebird up"):
        ShopServer("127.0.0.1", 1, "shop", "").connect()
