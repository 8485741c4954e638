"""The shop's change log as transactions, its documents as they were written, and the join that says what they are."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from include.log import topics
from include.log.kafka.log import KafkaReader
from include.log.ports import Record
from include.log.registry.confluent import ConfluentRegistry
from include.record.codec import Decoder
from include.record.json.body import plain
from include.record.version import from_headers
from tests.support.documents.replay_oracle import TRANSIENT, Replayed, Step, Transaction, Written

__all__ = ["ShopLog", "join"]

TABLES = (
    "orders",
    "order_lines",
    "addresses",
    "order_entries",
    "partners",
    "businesses",
    "verticals",
    "cancellation_policies",
)


class ShopLog:
    """Reads all records that are there; nothing is compacted for days."""

    def __init__(self, kafka: str, registry_url: str, source: str, database: str, topic: str) -> None:
        self.reader = KafkaReader(kafka)
        self._decode = Decoder(ConfluentRegistry(registry_url).schema)
        self._source, self._database, self._topic = source, database, topic

    def transactions(self) -> list[Transaction]:
        """Of the tables that documents show; each row of a snapshot is one of its own, as it was there before."""
        found: dict[str, list[Step]] = defaultdict(list)
        for table in TABLES:
            for record in self.records(topics.change(self._source, self._database, table)):
                if record.value is None:
                    continue
                version, change = from_headers(record.headers), self._decode(record.value)
                name = f"snapshot {version}" if change["op"] == "r" else change["source"]["gtid"]
                found[name].append(Step(version, table, change["before"], change["after"]))
        made = [Transaction(tuple(sorted(steps, key=lambda step: step.version))) for steps in found.values()]
        made.sort(key=lambda transaction: transaction.end)
        for earlier, later in itertools.pairwise(made):
            assert earlier.end < later.steps[0].version, "transactions do not overlap"
        return made

    def resolved(self) -> list[int]:
        """Versions of the source's resolved records."""
        return [from_headers(r.headers) for r in self.records(topics.source_resolved(self._source)) if r.value]

    def written(self) -> list[Written]:
        """Every version of every document."""
        return [
            Written(
                self._decode(record.key or b"")["order_id"],
                from_headers(record.headers),
                None if record.value is None else plain(self._decode(record.value)),
            )
            for record in self.records(self._topic)
        ]

    def close(self) -> None:
        """Give up the connection."""
        self.reader.close()

    def records(self, topic: str) -> Iterator[Record]:
        """All committed records of a topic, partition by partition."""
        for partition, end in self.reader.end_offsets(topic).items():
            yield from self.reader.read(topic, partition, 0, end)


def join(tables: Replayed, order_id: int) -> Any:
    """What search must answer for an order, from the rows of one moment."""
    rows = tables.find("orders", "order_id", order_id)
    final = [row for row in rows if row["state"] in ("completed", "cancelled")]
    if not final:
        return TRANSIENT if rows else None
    row = final[-1]
    business = tables.one("businesses", row["business_id"])
    vertical = business and tables.one("verticals", business["vertical_id"])
    entry = tables.one("order_entries", row["entry_id"])
    address = tables.one("addresses", row["address_id"])
    partner = tables.one("partners", row["partner_id"])
    policy = tables.one("cancellation_policies", row["cancellation_policy_id"])
    lines = sorted(tables.find("order_lines", "order_row_id", row["id"]), key=lambda line: int(line["line_no"]))
    if not (business and vertical and entry and address and partner):
        return "a required row is missing"
    shown = ("line_no", "name", "description", "category", "quantity")
    return {
        "order_id": order_id,
        "order_row_id": row["id"],
        "state": row["state"],
        "currency": row["currency"],
        "updated_at": _iso(row["created_at"]),
        "user_id": row["user_id"],
        "business_id": row["business_id"],
        "rollback_cause": row["rollback_cause"],
        "created_at": _iso(rows[0]["created_at"]),
        "vertical": vertical["name"],
        "entry": {name: entry[name] for name in ("channel", "campaign", "referrer")},
        "delivery_address": {
            **{name: address[name] for name in ("street", "city", "postal_code", "country")},
            "location": {"lat": address["lat"], "lon": address["lon"]},
        },
        "lines": [{**{name: line[name] for name in shown}, "price": f"{line['price']:.2f}"} for line in lines],
        "partner": {"name": partner["name"], "site": partner["site"]},
        "cancellation_policy": policy and {name: policy[name] for name in ("name", "free_until_minutes")},
        "total_price": f"{sum(line['quantity'] * line['price'] for line in lines):.2f}",
    }


def _iso(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
