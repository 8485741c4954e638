"""Columns whose content must never reach a document of an order, its index or any other copy made for order search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

__all__ = ["PRIVATE_FIELDS", "private_texts"]

PRIVATE_FIELDS: frozenset[str] = frozenset(
    {
        "addresses.door_code",
        "businesses.email",
        "businesses.margin",
        "businesses.name",
        "businesses.opened_on",
        "businesses.partner_id",
        "businesses.phone",
        "businesses.tax_number",
        "businesses.vertical_id",
        "campaigns.budget",
        "cancellation_policies.internal_note",
        "order_entries.device_fingerprint",
        "partners.bank_account",
        "partners.commission_percent",
        "partners.contact_email",
        "partners.contact_phone",
        "partners.contract_number",
        "partners.legal_name",
        "payments.amount",
        "payments.attempt",
        "payments.card_token",
        "payments.id",
        "payments.method",
        "payments.order_id",
        "payments.processor_reference",
        "payments.status",
        "users.born_on",
        "users.email",
        "users.name",
        "users.password_hash",
        "users.phone",
        "users.registered_at",
        "users.wants_mail",
    }
)
"""`table.column`: all of payments; of users and businesses all but the id (a document names the vertical, not its id);
of partners all but id, name and site; of the other tables what is not for the public."""

_TELLING = 8  # shorter texts may occur by chance


def private_texts(connection: Connection[Cursor]) -> Iterator[tuple[str, str]]:
    """Yield (`table.column`, value) for each distinct text of eight characters or more in a private column.

    A copy that contains one of these texts leaks it: the shop draws them so that no public value has them inside.
    Numbers and enumerations are left out, as their values occur in public columns too.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = DATABASE() AND data_type IN ('char', 'varchar', 'text')"
        )
        columns = [(table, column) for table, column in cursor.fetchall()]
        for table, column in columns:
            if f"{table}.{column}" not in PRIVATE_FIELDS:
                continue
            cursor.execute(
                f"SELECT DISTINCT {column} FROM {table} WHERE CHAR_LENGTH({column}) >= %s",  # noqa: S608 - names from the schema itself
                (_TELLING,),
            )
            for (value,) in cursor.fetchall():
                yield f"{table}.{column}", str(value)
