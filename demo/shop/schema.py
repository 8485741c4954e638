"""The tables of the shop, in an order in which foreign keys can be made.

An order is a linked list of row versions in `orders`: `id` names the row, `order_id` the order, `previous_id` the
row before (null for the first). Rows never change; each step inserts one. What the order *is* is its newest row
(greatest `id`) in a final state, `completed` or `cancelled`. Lines belong to one row version.

Columns keep to types that a capture can render without loss: integers, decimal, double, char, varchar, text, enum,
date, datetime(6). All times are UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

__all__ = ["TABLES", "create_tables", "statements"]

_COLUMNS: dict[str, str] = {
    "verticals": """
        id int unsigned NOT NULL PRIMARY KEY,
        code varchar(32) NOT NULL UNIQUE,
        name varchar(64) NOT NULL""",
    "partners": """
        id int unsigned NOT NULL PRIMARY KEY,
        name varchar(128) NOT NULL,
        site varchar(255) NOT NULL,
        legal_name varchar(128) NOT NULL,
        commission_percent decimal(12,2) NOT NULL,
        contact_email varchar(128) NOT NULL,
        contact_phone varchar(32) NOT NULL,
        contract_number varchar(64) NOT NULL,
        bank_account varchar(64) NOT NULL""",
    "businesses": """
        id int unsigned NOT NULL PRIMARY KEY,
        partner_id int unsigned NOT NULL,
        vertical_id int unsigned NOT NULL,
        name varchar(128) NOT NULL,
        tax_number varchar(64) NOT NULL,
        email varchar(128) NOT NULL,
        phone varchar(32) NOT NULL,
        margin double NOT NULL,
        opened_on date NOT NULL,
        CONSTRAINT businesses_partner FOREIGN KEY (partner_id) REFERENCES partners (id),
        CONSTRAINT businesses_vertical FOREIGN KEY (vertical_id) REFERENCES verticals (id)""",
    "users": """
        id int unsigned NOT NULL PRIMARY KEY,
        name varchar(128) NOT NULL,
        email varchar(128) NOT NULL,
        phone varchar(32) NOT NULL,
        password_hash char(64) NOT NULL,
        born_on date NULL,
        wants_mail tinyint(1) NOT NULL,
        registered_at datetime(6) NOT NULL""",
    "menu_categories": """
        id int unsigned NOT NULL PRIMARY KEY,
        business_id int unsigned NOT NULL,
        name varchar(64) NOT NULL,
        CONSTRAINT menu_categories_business FOREIGN KEY (business_id) REFERENCES businesses (id)""",
    "menu_items": """
        id int unsigned NOT NULL PRIMARY KEY,
        category_id int unsigned NOT NULL,
        name varchar(128) NOT NULL,
        description text NULL,
        price decimal(12,2) NOT NULL,
        available tinyint(1) NOT NULL,
        CONSTRAINT menu_items_category FOREIGN KEY (category_id) REFERENCES menu_categories (id)""",
    "channels": """
        code varchar(32) NOT NULL PRIMARY KEY,
        name varchar(64) NOT NULL""",
    "campaigns": """
        code varchar(32) NOT NULL PRIMARY KEY,
        channel varchar(32) NOT NULL,
        budget decimal(12,2) NOT NULL,
        starts_on date NOT NULL,
        CONSTRAINT campaigns_channel FOREIGN KEY (channel) REFERENCES channels (code)""",
    "cancellation_policies": """
        id int unsigned NOT NULL PRIMARY KEY,
        name varchar(64) NOT NULL,
        free_until_minutes int NOT NULL,
        internal_note text NULL""",
    "couriers": """
        id int unsigned NOT NULL PRIMARY KEY,
        name varchar(128) NOT NULL,
        phone varchar(32) NOT NULL,
        vehicle enum('foot','bicycle','scooter','car') NOT NULL""",
    "order_numbers": """
        order_id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
        user_id int unsigned NOT NULL,
        CONSTRAINT order_numbers_user FOREIGN KEY (user_id) REFERENCES users (id)""",
    "order_entries": """
        id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
        channel varchar(32) NOT NULL,
        campaign varchar(32) NULL,
        referrer varchar(512) NULL,
        device_fingerprint char(32) NOT NULL,
        CONSTRAINT order_entries_channel FOREIGN KEY (channel) REFERENCES channels (code),
        CONSTRAINT order_entries_campaign FOREIGN KEY (campaign) REFERENCES campaigns (code)""",
    "addresses": """
        id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
        user_id int unsigned NOT NULL,
        street varchar(128) NOT NULL,
        city varchar(64) NOT NULL,
        postal_code varchar(16) NOT NULL,
        country char(2) NOT NULL,
        lat double NOT NULL,
        lon double NOT NULL,
        door_code varchar(32) NULL,
        CONSTRAINT addresses_user FOREIGN KEY (user_id) REFERENCES users (id)""",
    "orders": """
        id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
        order_id bigint NOT NULL,
        previous_id bigint NULL,
        attempt int unsigned NOT NULL,
        state enum('pending','completed','cancelled') NOT NULL,
        user_id int unsigned NOT NULL,
        business_id int unsigned NOT NULL,
        partner_id int unsigned NOT NULL,
        entry_id bigint NOT NULL,
        address_id bigint NOT NULL,
        cancellation_policy_id int unsigned NULL,
        currency char(3) NOT NULL,
        total_price decimal(12,2) NOT NULL,
        rollback_cause varchar(64) NULL,
        created_at datetime(6) NOT NULL,
        UNIQUE KEY orders_previous (previous_id),
        KEY orders_order (order_id, id),
        CONSTRAINT orders_number FOREIGN KEY (order_id) REFERENCES order_numbers (order_id),
        CONSTRAINT orders_before FOREIGN KEY (previous_id) REFERENCES orders (id),
        CONSTRAINT orders_user FOREIGN KEY (user_id) REFERENCES users (id),
        CONSTRAINT orders_business FOREIGN KEY (business_id) REFERENCES businesses (id),
        CONSTRAINT orders_partner FOREIGN KEY (partner_id) REFERENCES partners (id),
        CONSTRAINT orders_entry FOREIGN KEY (entry_id) REFERENCES order_entries (id),
        CONSTRAINT orders_address FOREIGN KEY (address_id) REFERENCES addresses (id),
        CONSTRAINT orders_policy FOREIGN KEY (cancellation_policy_id)
            REFERENCES cancellation_policies (id)""",
    "order_lines": """
        id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
        order_row_id bigint NOT NULL,
        line_no int unsigned NOT NULL,
        menu_item_id int unsigned NOT NULL,
        name varchar(128) NOT NULL,
        description text NULL,
        category varchar(64) NOT NULL,
        quantity int unsigned NOT NULL,
        price decimal(12,2) NOT NULL,
        UNIQUE KEY order_lines_line (order_row_id, line_no),
        CONSTRAINT order_lines_row FOREIGN KEY (order_row_id) REFERENCES orders (id),
        CONSTRAINT order_lines_item FOREIGN KEY (menu_item_id) REFERENCES menu_items (id)""",
    "payments": """
        id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
        order_id bigint NOT NULL,
        attempt int unsigned NOT NULL,
        method enum('card','wallet','voucher') NOT NULL,
        status enum('authorised','captured','declined','refunded','settled') NOT NULL,
        amount decimal(12,2) NOT NULL,
        card_token varchar(64) NOT NULL,
        processor_reference varchar(64) NULL,
        UNIQUE KEY payments_attempt (order_id, attempt),
        CONSTRAINT payments_number FOREIGN KEY (order_id) REFERENCES order_numbers (order_id)""",
    "deliveries": """
        order_id bigint NOT NULL PRIMARY KEY,
        courier_id int unsigned NOT NULL,
        status enum('assigned','delivered') NOT NULL,
        distance_m int unsigned NOT NULL,
        promised_at datetime(6) NOT NULL,
        CONSTRAINT deliveries_number FOREIGN KEY (order_id) REFERENCES order_numbers (order_id),
        CONSTRAINT deliveries_courier FOREIGN KEY (courier_id) REFERENCES couriers (id)""",
    "table_bookings": """
        order_id bigint NOT NULL PRIMARY KEY,
        party_size tinyint unsigned NOT NULL,
        starts_at datetime(6) NOT NULL,
        CONSTRAINT table_bookings_number FOREIGN KEY (order_id) REFERENCES order_numbers (order_id)""",
    "reviews": """
        id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
        order_id bigint NOT NULL UNIQUE,
        user_id int unsigned NOT NULL,
        business_id int unsigned NOT NULL,
        stars tinyint unsigned NOT NULL,
        body text NULL,
        CONSTRAINT reviews_number FOREIGN KEY (order_id) REFERENCES order_numbers (order_id),
        CONSTRAINT reviews_user FOREIGN KEY (user_id) REFERENCES users (id),
        CONSTRAINT reviews_business FOREIGN KEY (business_id) REFERENCES businesses (id)""",
}


def statements(columns: Mapping[str, str]) -> Mapping[str, str]:
    """Name of each table and its columns → name and the statement that makes it where it is not there."""
    form = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
    return MappingProxyType(
        {name: f"CREATE TABLE IF NOT EXISTS {name} ({each}\n) {form}" for name, each in columns.items()}
    )


TABLES: Mapping[str, str] = statements(_COLUMNS)
"""Name of each table → the statement that makes it; parents stand before children."""


def create_tables(connection: Connection[Cursor], tables: Mapping[str, str] = TABLES) -> None:
    """Make the tables that are not there in the connection's database. May be called again."""
    with connection.cursor() as cursor:
        for statement in tables.values():
            cursor.execute(statement)
