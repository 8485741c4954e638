"""Lines straight from records, against the way through ids, bodies, metadata and lines one after the other."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.clock import ManualClock
from include.errors import InvalidRecord, Transient
from include.index.bulk.lines import line_maker
from include.index.bulk.request import line_bytes
from include.index.bulk.sender import Delivery
from include.index.definition import IndexTopic
from include.index.digest import state_hash
from include.index.feed import Feed
from include.index.metadata import Metadata, TopicOrigin
from include.index.server.port import BulkAnswer, ItemAnswer
from include.index.states import States
from include.index.task import IndexTask
from include.log.memory import MemoryRegistry
from include.log.ports import Headers
from include.record.codec import Encoder
from include.record.json.formats import ValueForm
from include.record.schema import Column, TableSchema
from tests.support.record.random_avro import damaged, encoded, key_schema_of, schema_of, wire

pytestmark = pytest.mark.compiled

seeds = st.integers(0, 2**64 - 1)
ORIGIN = TopicOrigin("löcal", "100%", "docs", 7)
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "order_id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
KEY: dict[str, Any] = {"type": "record", "name": "Key", "fields": [{"name": "order_id", "type": "long"}]}
TABLE = TableSchema("shop", "Orders", (Column("id", "bigint"), Column("note", "varchar")), ("id",))


class Ways:
    """The same feed read both ways; `key` and `body` are schemas of keys and of values of the form `value`."""

    def __init__(self, key: Any, body: Any, value: ValueForm = "plain") -> None:
        self.registry = MemoryRegistry()
        self.key_id = self.registry.register("docs-key", key)
        self.value_id = self.registry.register("docs-value", body)
        self.feed = Feed(ORIGIN, IndexTopic(entity="order", value=value))
        made = line_maker(self.feed, self.registry)
        assert made is not None
        self.fast = made.line
        self.states = States(self.feed, self.registry)
        self.metadata = Metadata(ORIGIN)

    def slow(
        self, key: bytes | None, value: bytes | None, headers: Headers | None, partition: int, offset: int
    ) -> tuple[str, int, bytes, bool]:
        doc_id, version = self.states.identity(partition, offset, key, headers)
        body = self.states.body(value)
        at = (partition, offset, doc_id, version)
        metadata = self.metadata.deleted(*at) if body is None else self.metadata.living(*at, body)
        return doc_id, version, line_bytes(doc_id, version, b'"order"', body, metadata), body is None

    def agree(self, key: bytes | None, value: bytes | None, headers: Headers | None, offset: int = 1) -> bool:
        """Both give the same, or the fast one leaves it to the other; whether it did not."""
        found = self.fast(key, value, headers, 3, offset)
        try:
            wanted = self.slow(key, value, headers, 3, offset)
        except InvalidRecord:
            assert found is None
            return False
        assert found is None or found == wanted
        return found is not None


def headers_of(random: Random) -> Headers | None:
    version = b"%d" % random.choice((0, 1, random.getrandbits(50), 2**53 - 1))
    draw = random.random()
    if draw < 0.9:
        return [("version", version)]
    odd = (b"", b"-1", b"1_0", " ²".encode(), b"%d" % 2**53, b"0" * 20 + b"1", None, version)
    named: Any = [("version", version), ("other", b"1"), ("version", random.choice(odd))]
    return random.choice((None, [], [("Version", version)], named))


@settings(max_examples=250)
@given(seeds)
def test_lines_of_any_record_are_those_of_the_other_way(seed: int) -> None:
    random = Random(seed)
    key, value = key_schema_of(random), schema_of(random)
    value = (
        value if isinstance(value, dict) else {"type": "record", "name": "R", "fields": [{"name": "v", "type": value}]}
    )
    ways = Ways(key, value)
    for _ in range(4):
        own_key = wire(ways.key_id, encoded(random, key))
        body = None if random.random() < 0.2 else wire(ways.value_id, encoded(random, value))
        ways.agree(own_key, body, headers_of(random), random.getrandbits(40))
        ways.agree(damaged(random, own_key), body and damaged(random, body), headers_of(random))


@settings(max_examples=100)
@given(seeds)
def test_lines_of_changes_are_those_of_the_other_way(seed: int) -> None:
    random = Random(seed)
    schema = TABLE.envelope_avro("main")
    ways = Ways(TABLE.key_avro("main"), schema, value="change")
    encode = Encoder(ways.value_id, schema)
    source = {"version": "1", "connector": "m", "name": "n", "ts_ms": 1, "db": "d", "server_id": 1, "file": "f"}
    images: list[Any] = [None, {"id": 1, "note": None}, {"id": 2**63 - 1, "note": "naïve\n"}]
    for op in ("c", "u", "r", "d", "t", "", "cc"):
        change = {"op": op, "before": random.choice(images), "after": random.choice(images)}
        value = encode({**change, "source": {**source, "pos": 1, "row": 0}})
        key = wire(ways.key_id, encoded(random, TABLE.key_avro("main")))
        ways.agree(key, value, headers_of(random))
        ways.agree(key, damaged(random, value), headers_of(random))
        ways.agree(key, None, headers_of(random))


def test_plain_records_are_left_to_nobody() -> None:
    ways = Ways(KEY, ORDER)
    key, value = Encoder(ways.key_id, KEY), Encoder(ways.value_id, ORDER)
    for n in (1, -5, 2**63 - 1):
        for body in (None, value({"order_id": n, "note": 'say "no"\x00 ü'})):
            assert ways.agree(key({"order_id": n}), body, [("version", b"%d" % (n & 0xFFFF))])


def test_records_of_other_formats_are_left_to_the_other_way() -> None:
    ways = Ways(KEY, ORDER)
    key, value = (
        Encoder(ways.key_id, KEY)({"order_id": 1}),
        Encoder(ways.value_id, ORDER)({"order_id": 1, "note": None}),
    )
    headers = [("version", b"1")]
    assert ways.agree(key, value, headers)
    for bad in (b"", b"\x00", b"{}", wire(999, b"\x02"), key + b"\x00"):
        assert not ways.agree(bad, value, headers)
        assert not ways.agree(key, bad, headers)
    assert not ways.agree(None, value, headers)
    assert ways.agree(key, value, headers)


def test_several_schemas_take_turns() -> None:
    ways = Ways(KEY, ORDER)
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "state", "type": "string", "default": ""}]}
    newer_id = ways.registry.register("docs-value", newer)
    key = Encoder(ways.key_id, KEY)({"order_id": 1})
    old, new = Encoder(ways.value_id, ORDER), Encoder(newer_id, newer)
    for n in range(6):
        value = new({"order_id": n, "note": None, "state": "new"}) if n % 2 else old({"order_id": n, "note": None})
        assert ways.agree(key, value, [("version", b"%d" % n)])


@pytest.mark.parametrize(
    "feed",
    [
        Feed(ORIGIN, IndexTopic(entity="order"), versions="offset"),
        Feed(ORIGIN, IndexTopic(entity="order"), shared=True),
        Feed(ORIGIN, IndexTopic(entity="order", key="text")),
        Feed(ORIGIN, IndexTopic(entity="order", key="none")),
        Feed(ORIGIN, IndexTopic(entity="order", routing="user_id")),
    ],
)
def test_feeds_that_need_more_than_the_record_have_no_maker(feed: Feed) -> None:
    assert line_maker(feed, MemoryRegistry()) is None


def test_a_registry_that_is_away_is_told_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = Ways(KEY, ORDER)
    key, value = (
        Encoder(ways.key_id, KEY)({"order_id": 1}),
        Encoder(ways.value_id, ORDER)({"order_id": 1, "note": None}),
    )
    real = ways.registry.schema

    def away(_schema_id: int) -> Any:
        raise Transient("registry is away", system="registry")

    monkeypatch.setattr(ways.registry, "schema", away)
    made = line_maker(ways.feed, ways.registry)
    assert made is not None
    with pytest.raises(Transient):
        made.line(key, value, [("version", b"1")], 0, 0)
    monkeypatch.setattr(ways.registry, "schema", real)
    made = line_maker(ways.feed, ways.registry)
    assert made is not None
    assert made.line(key, value, [("version", b"1")], 0, 0) is not None


@given(st.text(max_size=300), st.integers(0, 2**53 - 1), st.binary(max_size=600))
def test_the_compiled_digest_is_blake2b(doc_id: str, version: int, body: bytes) -> None:
    from include.record.json.native import _avro_json

    try:
        doc_id.encode()
    except UnicodeEncodeError:
        return
    wanted = state_hash(doc_id, version, body)
    assert _avro_json.state_hash(doc_id, version, body) == wanted


@pytest.mark.parametrize("size", [0, 115, 116, 117, 127, 128, 129, 243, 244, 245, 256, 372, 5000])
def test_the_compiled_digest_meets_the_ends_of_blocks(size: int) -> None:
    from include.record.json.native import _avro_json

    assert _avro_json.state_hash("1", 1, b"x" * size) == state_hash("1", 1, b"x" * size)


def test_the_first_value_of_each_schema_goes_the_way_that_makes_the_index_fit_for_it() -> None:
    ways = Ways(KEY, ORDER)
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "state", "type": "string", "default": ""}]}
    newer_id = ways.registry.register("docs-value", newer)
    old, new = Encoder(ways.value_id, ORDER), Encoder(newer_id, newer)
    values = [old({"order_id": n, "note": None}) for n in range(3)]
    values += [new({"order_id": n, "note": None, "state": "s"}) for n in range(3, 6)]
    read: list[bytes | None] = []

    class Watched(States):
        def __init__(self) -> None:
            super().__init__(ways.feed, ways.registry)
            body = self.body

            def watched(value: bytes | None) -> Any:
                read.append(value)
                return body(value)

            self.body = watched

    sent: list[bytes] = []

    def send(lines: bytes) -> BulkAnswer:
        sent.append(lines)
        return BulkAnswer(200, [ItemAnswer(201)] * (lines.count(b"\n") // 2))

    delivery = Delivery(send, ManualClock(), index="docs-v1", bulk_bytes=100_000, patience_s=1)
    task = IndexTask(states={"docs": Watched()}, delivery=delivery, window_bytes=100_000)
    key = Encoder(ways.key_id, KEY)
    out = task.run(
        ("docs", 3, n, key({"order_id": n}), value, [("version", b"%d" % n)], 0) for n, value in enumerate(values)
    )
    assert out.total("indexed") == 6
    assert read == [values[0], values[3]]
    whole = [
        ways.slow(key({"order_id": n}), value, [("version", b"%d" % n)], 3, n)[2] for n, value in enumerate(values)
    ]
    assert b"".join(sent) == b"".join(whole)
