"""Reads from both servers, by SQL of its own, what the index of advertisers must hold.

Nothing here is shared with the pipeline: it is the other side of the comparison.
"""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection
from pymysql.cursors import Cursor

__all__ = ["advertisers"]

_BUSINESSES = "SELECT id, name, vertical_id FROM businesses"
# As the source's policy masks it: all but the last three characters of a phone are stars.
_PACKAGES = """
SELECT p.business_id, p.id, p.plan, p.monthly_price, p.status, p.starts_on,
       o.id, o.name, CONCAT(REPEAT('*', CHAR_LENGTH(o.phone) - 3), RIGHT(o.phone, 3)), o.language
FROM packages p LEFT JOIN owners o ON o.business_id = p.business_id
"""


def advertisers(shop: Connection[Cursor], ads: Connection[Cursor]) -> list[dict[str, Any]]:
    """The body of each document: a package of a business that the shop has, with each owner, or with none.

    Of one moment only where nobody writes. Money is a decimal text, days are ISO 8601.
    """
    businesses = {number: rest for number, *rest in _rows(shop, _BUSINESSES)}
    return [
        {
            "business_id": business_id,
            "business_name": businesses[business_id][0],
            "vertical_id": businesses[business_id][1],
            "package_id": package_id,
            "plan": plan,
            "monthly_price": f"{price:.2f}",
            "status": status,
            "starts_on": starts_on.isoformat(),
            "owner_id": owner_id,
            "owner_name": owner_name,
            "owner_phone": phone,
            "owner_language": language,
        }
        for (
            business_id, package_id, plan, price, status, starts_on, owner_id, owner_name, phone, language
        ) in _rows(ads, _PACKAGES)
        if business_id in businesses
    ]  # fmt: skip


def _rows(connection: Connection[Cursor], query: str) -> tuple[tuple[Any, ...], ...]:
    connection.rollback()
    with connection.cursor(Cursor) as cursor:
        cursor.execute(query)
        return tuple(cursor.fetchall())
