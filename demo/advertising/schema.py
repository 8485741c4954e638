"""The tables of advertising. They know businesses of the shop by number alone: the shop is on another server."""

from __future__ import annotations

from collections.abc import Mapping

from demo.shop.schema import statements

__all__ = ["TABLES"]

TABLES: Mapping[str, str] = statements(
    {
        "packages": """
        id int unsigned NOT NULL PRIMARY KEY,
        business_id int unsigned NOT NULL,
        plan enum('basic','plus','premium') NOT NULL,
        monthly_price decimal(12,2) NOT NULL,
        status enum('trial','running','paused') NOT NULL,
        starts_on date NOT NULL,
        KEY packages_business (business_id)""",
        "owners": """
        id int unsigned NOT NULL PRIMARY KEY,
        business_id int unsigned NOT NULL,
        name varchar(128) NOT NULL,
        phone varchar(32) NOT NULL,
        email varchar(128) NOT NULL,
        language char(2) NOT NULL,
        KEY owners_business (business_id)""",
    }
)
"""Name of each table → the statement that makes it."""
