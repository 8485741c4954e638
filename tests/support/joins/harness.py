"""Tables of two servers and a plain topic that two joins read, and what SQL says of them."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from include.clock import SystemClock
from include.log.control import ControlRecord
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.ports import TopicSpec
from include.log.registry.confluent import ConfluentRegistry
from include.record.codec import Decoder, Encoder
from include.record.schema import Column, TableSchema
from include.record.version import from_headers
from include.store.s3 import S3Store
from tests.support.source.captured_changes import CapturedChanges

__all__ = ["PATIENCE_S", "JoinHarness"]

PATIENCE_S = 60
_FIRST = """
SELECT r.review_id, b.business_id, r.stars, b.city, r.noise
FROM reviews r JOIN businesses b ON b.business_id = r.business_id WHERE r.stars < :stars
"""
_SECOND = """
SELECT r.review_id, b.business_id, o.owner_id, r.stars, b.city, o.phone, g.badge
FROM reviews r JOIN businesses b ON b.business_id = r.business_id
LEFT JOIN owners o ON o.business_id = b.business_id LEFT JOIN badges g ON g.business_id = b.business_id
WHERE r.stars < :stars
"""
Row = dict[str, Any]


def table(name: str, database: str, *columns: str) -> TableSchema:
    """The first column is the key."""
    return TableSchema(database, name, tuple(Column(each, "bigint") for each in columns), (columns[0],))


class JoinHarness:
    """Tables of two servers and a plain topic, under one unique name; two joins, one of them of the other's output."""

    def __init__(
        self, name: str, kafka: str, registry_url: str, s3: Any, folder: Path, buckets: tuple[int, int] = (4, 3)
    ) -> None:
        self.name, self.kafka, self.folder, self.draw = name, kafka, folder, random.Random(7)
        self.admin, self.registry = KafkaAdmin(kafka), ConfluentRegistry(registry_url)
        self.shop = self._captured("shop", table("reviews", name, "review_id", "business_id", "stars", "noise"))
        self.ads = self._captured("ads", table("businesses", name, "business_id", "city"))
        self.writer = KafkaWriter(kafka, f"owners-{name}")
        self.owners_topic = f"{name}.owners"
        self.admin.ensure(TopicSpec(self.owners_topic, 2, {"cleanup.policy": "compact"}))
        self.encode: dict[str, Encoder] = {}
        self._describe(self.owners_topic, key=["owner_id"], value=["owner_id", "business_id", "phone"])
        self.badges_topic, self.badges = f"{name}.badges", {business: business % 3 for business in range(0, 12, 2)}
        self._award()
        self.noisy = self.badged = False
        self.failures: list[BaseException] = []
        self.reviews: dict[int, Row] = {}
        self.businesses: dict[int, Row] = {}
        self.owners: dict[int, Row] = {}
        self.bucket = S3Store(s3.endpoint, name, s3.access_key, s3.secret_key)
        self.bucket.ensure_bucket()
        self.first, self.second = f"{name}.reviewed", f"{name}.owned"
        (folder / "joins").mkdir()
        self.stopped = False
        """Of the server of businesses: nothing is read of it, and nobody says how far it is."""
        self._declare(kafka, registry_url, s3, buckets)

    def _describe(self, topic: str, **fields: list[str]) -> None:
        for part, names in fields.items():
            schema = {"type": "record", "name": part, "fields": [{"name": each, "type": "long"} for each in names]}
            self.encode[f"{topic}-{part}"] = Encoder(self.registry.register(f"{topic}-{part}", schema), schema)

    def _award(self) -> None:
        """A plain topic that no join reads at first."""
        topic = self.badges_topic
        self.admin.ensure(TopicSpec(topic, 2, {"cleanup.policy": "compact"}))
        self._describe(topic, key=["business_id"], value=["business_id", "badge"])
        self.writer.begin()
        for business, badge in self.badges.items():
            key = self.encode[f"{topic}-key"]({"business_id": business})
            value = self.encode[f"{topic}-value"]({"business_id": business, "badge": badge})
            self.writer.append(topic, key, value)
        self.writer.commit()

    def _captured(self, server: str, *tables: TableSchema) -> CapturedChanges:
        writer = KafkaWriter(self.kafka, f"capture-{server}-{self.name}")
        return CapturedChanges(writer, self.admin, self.registry, tables, source=f"{server}{self.name}")

    def _declare(self, kafka: str, registry_url: str, s3: Any, buckets: tuple[int, int]) -> None:
        reviewed = {
            "join": [
                {
                    "topic": self.shop.topic("reviews"),
                    "join_keys": ["business_id"],
                    "exclude_fields": ["noise"],
                },
                {"topic": self.ads.topic("businesses"), "join_keys": ["business_id"]},
            ],
            "output": {"namespace": self.name, "source": "reviewed"},
            "buckets": buckets[0],
        }
        owned = {
            "join": [
                {
                    "topic": self.first,
                    "join_keys": ["business_id"],
                    "include_fields": ["review_id", "business_id", "stars", "city"],
                },
                {"topic": self.owners_topic, "join_keys": ["business_id"], "type": "left"},
            ],
            "output": {"namespace": self.name, "source": "owned"},
            "buckets": buckets[1],
        }
        for name, join in (("reviewed", reviewed), ("owned", owned)):
            (self.folder / "joins" / f"{name}.yaml").write_text(yaml.safe_dump(join))
        application = f"join_{self.name}"
        values = {
            "joins": {
                name: {"application": application, "file": f"joins/{name}.yaml"} for name in ("reviewed", "owned")
            },
            "applications": {application: {"entry": "spark_apps/join.py", "topics": [self.first, self.second]}},
            "kafka": {"bootstrap": kafka},
            "registry": {"url": registry_url},
            "store": {
                "endpoint": s3.endpoint,
                "bucket": self.name,
                "access_key": s3.access_key,
                "secret_key": s3.secret_key,
            },
        }
        (self.folder / "all.yaml").write_text(yaml.safe_dump(values))

    def show_noise(self) -> None:
        """The first join's file changes: another projection and a filter."""
        self.noisy = True
        file = self.folder / "joins" / "reviewed.yaml"
        join = yaml.safe_load(file.read_text())
        del join["join"][0]["exclude_fields"]
        join["join"][0]["where"] = {"stars": [0, 1, 2]}
        file.write_text(yaml.safe_dump(join))

    def show_badges(self) -> None:
        """The second join's file changes: one more input."""
        self.badged = True
        file = self.folder / "joins" / "owned.yaml"
        join = yaml.safe_load(file.read_text())
        join["join"].append({"topic": self.badges_topic, "join_keys": ["business_id"], "type": "left"})
        file.write_text(yaml.safe_dump(join))

    def change(self, count: int) -> None:
        """Some transactions on both servers and in the plain topic."""
        draw = self.draw
        for _ in range(count):
            review, business = draw.randrange(40), draw.randrange(12)
            kind = draw.choice(["review", "review", "review", "business", "owner", "gone"])
            if kind == "review":
                row = {"review_id": review, "business_id": business, "stars": draw.randrange(5), "noise": count}
                self.review(review, row)
            elif self.stopped and kind != "owner":
                continue
            elif kind == "business":
                row = {"business_id": business, "city": draw.randrange(9)}
                self._commit(self.ads, "businesses", self.businesses, business, row)
            elif kind == "owner":
                owner = draw.randrange(8)
                self._own(owner, {"owner_id": owner, "business_id": business, "phone": draw.randrange(1000)})
            elif draw.random() < 0.5:
                self.review(review, None)
            elif draw.random() < 0.5:
                self._commit(self.ads, "businesses", self.businesses, business, None)
            else:
                self._own(draw.randrange(8), None)

    def review(self, key: int, row: Row | None) -> None:
        """A review is put or (None) deleted, in a transaction."""
        self._commit(self.shop, "reviews", self.reviews, key, row)

    def truncate(self) -> None:
        """TRUNCATE of reviews."""
        self.reviews.clear()
        self.shop.commit(control=ControlRecord("truncate", self.name, "reviews", self.shop.version + 1))

    def _commit(self, capture: CapturedChanges, name: str, rows: dict[int, Row], key: int, after: Row | None) -> None:
        before = rows.pop(key, None)
        if after is not None:
            rows[key] = after
        if before is not None or after is not None:
            capture.commit(("d" if after is None else "c" if before is None else "u", name, before, after))

    def _own(self, owner: int, row: Row | None) -> None:
        self.owners.pop(owner, None)
        if row is not None:
            self.owners[owner] = row
        self.writer.begin()
        topic = self.owners_topic
        value = None if row is None else self.encode[f"{topic}-value"](row)
        self.writer.append(topic, self.encode[f"{topic}-key"]({"owner_id": owner}), value)
        self.writer.commit()

    def heartbeat(self) -> None:
        self.shop.heartbeat()
        if not self.stopped:
            self.ads.heartbeat()

    def expected_first(self) -> dict[tuple[Any, ...], Row]:
        """What SQL says of the tables."""
        return self._by_key(_FIRST, 2, *(() if self.noisy else ("noise",)))

    def expected_second(self) -> dict[tuple[Any, ...], Row]:
        """What SQL says of the tables."""
        return self._by_key(_SECOND, 3, *(() if self.badged else ("badge",)))

    def _by_key(self, query: str, width: int, *hidden: str) -> dict[tuple[Any, ...], Row]:
        """Rows by their first columns, without some of the others."""
        database = sqlite3.connect(":memory:")
        badges = [{"business_id": business, "badge": badge} for business, badge in self.badges.items()]
        for name, columns, rows in (
            ("reviews", ("review_id", "business_id", "stars", "noise"), self.reviews.values()),
            ("businesses", ("business_id", "city"), self.businesses.values()),
            ("owners", ("owner_id", "business_id", "phone"), self.owners.values()),
            ("badges", ("business_id", "badge"), badges),
        ):
            database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            places = ", ".join(f":{column}" for column in columns)
            database.executemany(f"INSERT INTO {name} VALUES ({places})", list(rows))
        made = database.execute(query, {"stars": 3 if self.noisy else 99})
        names = [name for name, *_ in made.description]
        found = {row[:width]: {n: each for n, each in zip(names, row, strict=True) if n not in hidden} for row in made}
        database.close()
        return found

    def table(self, topic: str) -> dict[tuple[Any, ...], Row]:
        """What a sink has; each (key, version) is there once and versions of a key grow."""
        if self.admin.describe(topic) is None:
            return {}
        reader, decode = KafkaReader(self.kafka), Decoder(self.registry.schema)
        newest: dict[bytes, tuple[int, bytes | None]] = {}
        for partition, end in reader.end_offsets(topic).items():
            for record in reader.read(topic, partition, 0, end):
                key, version = record.key or b"", from_headers(record.headers)
                assert version > newest.get(key, (-1, None))[0], "once, and growing"
                newest[key] = version, record.value
        reader.close()
        return {tuple(decode(key).values()): decode(value) for key, (_, value) in newest.items() if value is not None}

    def written(self, topic: str) -> int:
        """Records of a topic."""
        reader = KafkaReader(self.kafka)
        count = sum(1 for p, end in reader.end_offsets(topic).items() for _ in reader.read(topic, p, 0, end))
        reader.close()
        return count

    def wait(self, done: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        """Heartbeats until something is so."""
        clock = SystemClock()
        until_s = clock.monotonic_s() + within_s
        while not done():
            if self.failures:
                raise self.failures.pop()
            assert clock.monotonic_s() < until_s, self.told()
            clock.sleep(0.3)
            self.heartbeat()

    def told(self) -> str:
        """What is wrong."""
        lines = []
        for topic, expected in ((self.first, self.expected_first()), (self.second, self.expected_second())):
            made = self.table(topic)
            wrong = [key for key in made.keys() | expected.keys() if made.get(key) != expected.get(key)]
            lines += [f"{topic} {key}: {made.get(key)} for {expected.get(key)}" for key in wrong[:5]]
        progress = self.folder / "run" / "progress.json"
        return "\n".join([*lines, progress.read_text() if progress.exists() else "no progress"])

    def equal(self) -> bool:
        return self.table(self.first) == self.expected_first() and self.table(self.second) == self.expected_second()

    def close(self) -> None:
        """Take it all away."""
        for topic in self.admin.names():
            if self.name in topic:
                self.admin.delete(topic)
        self.writer.close()
