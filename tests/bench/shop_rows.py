"""Orders of the shop by the thousand, as one statement a table makes them."""

from __future__ import annotations

from demo.shop.connection import ShopServer
from demo.shop.generator import Shop

__all__ = ["fill_shop"]

_ROWS = {
    "order_numbers": "SELECT seq, 1 FROM seq_1_to_{n}",
    "order_entries": "SELECT seq, (SELECT MIN(code) FROM channels), NULL, CONCAT('https://a.example/', seq), ''"
    " FROM seq_1_to_{n}",
    "addresses": "SELECT seq, 1, CONCAT('Street ', seq), 'Town', LPAD(seq, 8, '0'), 'CH', 46 + seq / 1e6, 8, NULL"
    " FROM seq_1_to_{n}",
    # A pending row and a completed one of each order.
    "orders": "SELECT s.seq, (s.seq + 1) DIV 2, IF(s.seq MOD 2, NULL, s.seq - 1), 1,"
    " IF(s.seq MOD 2, 'pending', 'completed'), 1, b.id, b.partner_id, (s.seq + 1) DIV 2, (s.seq + 1) DIV 2,"
    " IF(s.seq MOD 4, NULL, 1), 'EUR', 30, NULL, '2026-11-02 03:04:05.000006'"
    " FROM seq_1_to_{twice} s JOIN businesses b ON b.id = 1 + s.seq MOD 5",
    "order_lines": "SELECT NULL, 2 * o.seq, l.seq, 1, CONCAT('Dish ', l.seq), 'With everything', 'Mains', l.seq, 5.00"
    " FROM seq_1_to_{n} o JOIN seq_1_to_3 l",
}


def fill_shop(server: ShopServer, orders: int) -> None:
    """Make the shop's tables with reference data and `orders` completed orders of three lines each."""
    with Shop(server.connect, 1, writers=1) as shop:
        shop.prepare()
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            for table, rows in _ROWS.items():
                cursor.execute(f"INSERT INTO {table} {rows.format(n=orders, twice=2 * orders)}")
            cursor.execute(f"ANALYZE TABLE {', '.join(_ROWS)}")
            cursor.fetchall()
        connection.commit()
    finally:
        connection.close()
