"""Reads from the shop's tables, by SQL of its own, what search must answer for each order.

Nothing here is shared with the pipeline: it is the other side of the comparison.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from pymysql.connections import Connection
from pymysql.cursors import Cursor

__all__ = ["truth"]

_AT_ONCE = 500

# An order is its newest row in a final state; an order without one is not searchable yet.
_ORDERS = """
SELECT o.order_id, o.id, o.state,
       (SELECT SUM(l.quantity * l.price) FROM order_lines l WHERE l.order_row_id = o.id),
       o.currency, first.created_at, o.created_at, o.user_id, o.business_id, v.name,
       e.channel, e.campaign, e.referrer,
       a.street, a.city, a.postal_code, a.country, a.lat, a.lon,
       p.name, p.site, c.name, c.free_until_minutes, o.rollback_cause
FROM (SELECT order_id, MAX(id) AS id FROM orders
      WHERE state IN ('completed', 'cancelled') AND order_id > %s AND order_id <= %s
      GROUP BY order_id ORDER BY order_id LIMIT %s) AS newest
JOIN orders o ON o.id = newest.id
JOIN orders first ON first.order_id = o.order_id AND first.previous_id IS NULL
JOIN businesses b ON b.id = o.business_id
JOIN verticals v ON v.id = b.vertical_id
JOIN order_entries e ON e.id = o.entry_id
JOIN addresses a ON a.id = o.address_id
JOIN partners p ON p.id = o.partner_id
LEFT JOIN cancellation_policies c ON c.id = o.cancellation_policy_id
ORDER BY o.order_id
"""

_LINES = """
SELECT order_row_id, line_no, name, description, category, quantity, price
FROM order_lines WHERE order_row_id IN %s ORDER BY order_row_id, line_no
"""

_LAST = 2**63 - 1


def truth(connection: Connection[Cursor], order_id: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the body of each order's document, by ascending `order_id`; of one order only if it is named.

    All bodies are of one moment: they are read in one consistent snapshot, which ends with the iteration. Money is
    a decimal text, times are ISO 8601 in UTC with microseconds. Keeps a few hundred orders in memory.
    """
    after, last = (0, _LAST) if order_id is None else (order_id - 1, order_id)
    connection.rollback()
    with connection.cursor(Cursor) as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        try:
            while True:
                cursor.execute(_ORDERS, (after, last, _AT_ONCE))
                orders = cursor.fetchall()
                if not orders:
                    return
                lines: dict[int, list[dict[str, Any]]] = {order[1]: [] for order in orders}
                cursor.execute(_LINES, (tuple(lines),))
                for row_id, *line in cursor.fetchall():
                    lines[row_id].append(_line(*line))
                for order in orders:
                    yield _body(order, lines[order[1]])
                after = orders[-1][0]
        finally:
            connection.rollback()


def _line(
    line_no: int, name: str, description: str | None, category: str, quantity: int, price: object
) -> dict[str, Any]:
    return {
        "line_no": line_no,
        "name": name,
        "description": description,
        "category": category,
        "quantity": quantity,
        "price": f"{price:.2f}",
    }


def _body(order: tuple[Any, ...], lines: list[dict[str, Any]]) -> dict[str, Any]:
    (
        order_id, row_id, state, total, currency, created_at, updated_at, user_id, business_id, vertical,
        channel, campaign, referrer, street, city, postal_code, country, lat, lon,
        partner, site, policy, free_until_minutes, rollback_cause,
    ) = order  # fmt: skip
    return {
        "order_id": order_id,
        "order_row_id": row_id,
        "state": state,
        "total_price": f"{total:.2f}",
        "currency": currency,
        "created_at": _iso(created_at),
        "updated_at": _iso(updated_at),
        "user_id": user_id,
        "business_id": business_id,
        "vertical": vertical,
        "entry": {"channel": channel, "campaign": campaign, "referrer": referrer},
        "delivery_address": {
            "street": street,
            "city": city,
            "postal_code": postal_code,
            "country": country,
            "location": {"lat": lat, "lon": lon},
        },
        "lines": lines,
        "partner": {"name": partner, "site": site},
        "cancellation_policy": None if policy is None else {"name": policy, "free_until_minutes": free_until_minutes},
        "rollback_cause": rollback_cause,
    }


def _iso(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
