"""An order as a search finds it in the database: one row, the newest of its entity."""

from __future__ import annotations

from include.document.definition import DocumentDefinition, FactTable

__all__ = ["DOCUMENT"]

DOCUMENT = DocumentDefinition(
    application="a",
    source="shop",
    database="shop",
    entity="order",
    fact=FactTable(table="orders", key=["order_id"], newest_by="id", state="state", final=["completed"]),
    fields={name: name for name in ("order_id", "user_id", "state", "created_at")},
)
