"""Order documents of 1 KB of JSON, as benches of the indexer read and send them."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Iterator
from decimal import Decimal
from itertools import cycle
from typing import Any, Final

import orjson
from confluent_kafka import Producer

from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.registry.confluent import ConfluentRegistry
from include.record.codec import Decoder, Encoder
from include.record.json.body import body_json
from include.record.version import to_header

__all__ = ["ENTITY", "MAPPING", "Filled", "bodies"]

ENTITY: Final = "order"
_TEMPLATES: Final = 2000
_WARM: Final = 20_000
_LINE: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "line_no", "type": "int"},
        {"name": "dish_id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "category", "type": ["null", "string"]},
        {"name": "quantity", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    ],
}
_POINT: Final = {"type": "record", "name": "Point", "fields": [{"name": n, "type": "double"} for n in ("lat", "lon")]}
_SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "user_id", "type": "long"},
        {"name": "state", "type": ["null", "string"]},
        {"name": "created_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "total_price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "currency", "type": "string"},
        {"name": "business_id", "type": "long"},
        {"name": "location", "type": _POINT},
        {"name": "note", "type": ["null", "string"]},
        {"name": "lines", "type": {"type": "array", "items": _LINE}},
    ],
}
_KEY: Final[dict[str, Any]] = {"type": "record", "name": "Key", "fields": [{"name": "order_id", "type": "long"}]}
_KEYWORD: Final = {"type": "keyword"}
_LONG: Final = {"type": "long"}
MAPPING: Final[dict[str, Any]] = {
    "properties": {
        "order_id": _LONG,
        "user_id": _LONG,
        "state": _KEYWORD,
        "created_at": {"type": "date_nanos"},
        "total_price": {"type": "double"},
        "currency": _KEYWORD,
        "business_id": _LONG,
        "location": {"type": "geo_point"},
        "note": {"type": "text"},
        "lines": {
            "properties": {
                "line_no": {"type": "integer"},
                "dish_id": _LONG,
                "name": {"type": "text"},
                "category": _KEYWORD,
                "quantity": {"type": "integer"},
                "price": {"type": "double"},
            }
        },
    }
}
"""Of the body."""


class Filled:
    """A topic with `warm` documents that can be read, and `documents` more that can be once `release` is called."""

    def __init__(self, bootstrap: str, registry_url: str, topic: str, documents: int, partitions: int) -> None:
        self.topic = topic
        self.documents = documents
        admin, registry = KafkaAdmin(bootstrap), ConfluentRegistry(registry_url)
        admin.ensure(topics.document_spec(topic, partitions))
        admin.ensure(topics.document_spec(topics.resolved(topic), 1))
        key = Encoder(registry.register(f"{topic}-key", _KEY), _KEY)
        value_id = registry.register(f"{topic}-value", _SCHEMA)
        registry.close()
        self._reader = KafkaReader(bootstrap)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"{topic}.bench",
                "transaction.timeout.ms": 900_000,
                "partitioner": "murmur2",
                "linger.ms": 20,
                "batch.size": 1 << 20,
            }
        )
        self._producer.init_transactions(60)
        self._producer.begin_transaction()
        self._write(key, value_id, 1, _WARM)
        self._producer.commit_transaction(120)
        self._producer.begin_transaction()
        self._write(key, value_id, _WARM + 1, _WARM + documents)
        if self._producer.flush(120):
            raise SystemExit("Kafka did not take the records")

    def release(self) -> None:
        """Let all of them be read."""
        self._producer.commit_transaction(120)
        # Brokers answer before they have told each partition.
        while self._reader.unended([self.topic]):
            time.sleep(0.01)

    def ends(self) -> dict[int, int]:
        """Where readers find the end now."""
        return dict(self._reader.end_offsets(self.topic))

    def close(self) -> None:
        """Give up the connections."""
        self._reader.close()

    def _write(self, key: Encoder, value_id: int, first: int, last: int) -> None:
        encode = Encoder(value_id, _SCHEMA)
        tails = [encode(value) for value in _orders()]
        # The id is the first field: a varint between the five bytes of the head and the rest.
        head, rest = tails[0][:5], len(Encoder(value_id, {**_SCHEMA, "fields": _SCHEMA["fields"][:1]})({"order_id": 0}))
        for number, tail in zip(range(first, last + 1), cycle(tails), strict=False):
            own = key({"order_id": number})
            while True:
                try:
                    self._producer.produce(self.topic, head + own[5:] + tail[rest:], own, headers=[to_header(number)])
                except BufferError:
                    self._producer.poll(0.1)
                else:
                    break
            if not number % 1000:
                self._producer.poll(0)


def bodies(documents: int) -> Iterator[dict[str, Any]]:
    """The same documents' bodies as dictionaries, ready to be sent; their parts are shared."""
    ready = [orjson.loads(body_json(Decoder(lambda _: _SCHEMA)(Encoder(1, _SCHEMA)(value)))) for value in _orders()]
    for number, body in zip(range(1, documents + 1), cycle(ready), strict=False):
        yield {**body, "order_id": number}


def _orders() -> list[dict[str, Any]]:
    draw = random.Random(1)
    words = ["".join(draw.choices("etaoinshrdlucm", k=draw.randrange(2, 10))) for _ in range(400)]
    found = []
    for _ in range(_TEMPLATES):
        lines = [
            {
                "line_no": number,
                "dish_id": draw.randrange(10**6),
                "name": " ".join(draw.choices(words, k=3)),
                "category": draw.choice(["pizza", "drinks", "desserts"]),
                "quantity": draw.randrange(1, 5),
                "price": Decimal(draw.randrange(100, 4000)) / 100,
            }
            for number in range(1, 5)
        ]
        order = {
            "order_id": 0,
            "user_id": draw.randrange(10**6),
            "state": draw.choice(["completed", "updated", "cancelled"]),
            "created_at": dt.datetime(2026, 11, 2, tzinfo=dt.UTC) + dt.timedelta(microseconds=draw.randrange(10**12)),
            "total_price": Decimal(draw.randrange(1000, 90000)) / 100,
            "currency": "EUR",
            "business_id": draw.randrange(10**4),
            "location": {"lat": draw.randrange(9 * 10**7) / 10**6, "lon": draw.randrange(10**8) / 10**6},
            "note": "",
            "lines": lines,
        }
        room = 1024 - len(body_json(order))
        order["note"] = " ".join(draw.choices(words, k=room // 2))[:room]
        found.append(order)
    return found
