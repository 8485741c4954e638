"""One suite over all sides of a comparison: what each gives of a range, and any two of them compared.

A database, the topic, the lake's table, and one that only remembers: who leads reads now, who follows gives the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from include.audit.merkle.bases import Base, lake_base, topic_base
from include.audit.merkle.compare import compared
from include.audit.merkle.database import AuditLoad, DatabaseSide
from include.audit.merkle.merkle_spark import CopySide
from include.audit.merkle.sides import AsOfRange, FollowingSide, FoundRows, LeadingSide, SnapshotSide
from include.clock import SystemClock
from include.log.kafka.log import KafkaReader
from include.settings.connections import Kafka
from include.source.definition import load_source
from include.source.hashes.scan import ScannedRange
from include.source.hashes.sums import bits_for, leaf_of
from include.source.state.key_range import KeyRange
from tests.support.tables.audit_scenario import TableAuditScenario
from tests.support.tables.sides_in_memory import History, Then

CLOCK = SystemClock()
ROWS = 100
BITS = bits_for(8 * ROWS)


@dataclass
class Sides:
    """Sides of table `a`, all of one moment."""

    database: DatabaseSide
    parts: Sequence[KeyRange]
    leading: dict[str, LeadingSide]
    following: dict[str, FollowingSide]

    def pairs(self) -> Iterator[tuple[str, str]]:
        return ((one, other) for one in self.leading for other in self.following if one != other)

    def found(self, one: str, other: str) -> dict[str, str]:
        """Key → kind of what is wrong between two of them."""
        said = compared(self.leading[one], self.following[other], self.parts, BITS, self.database.rows.columns)
        assert not (said.unsure)
        assert not (said.unexplained)
        assert not (said.left_out)
        return {each.key: each.kind for each in said.found}


@contextmanager
def sides(scene: TableAuditScenario, parts: Sequence[KeyRange] = ()) -> Iterator[Sides]:
    """Sides that are opened now, of these ranges or the database's; the remembered ones have what the topic has."""
    world, kafka = scene.world, scene.deployment.one("kafka", Kafka)
    world.wait_until_complete()
    lake = lake_base(scene.lake_log(), 1, scene.topic(), world.name)
    with closing(KafkaReader(kafka.bootstrap)) as reader:
        topic = topic_base(reader, scene.topic())
    load = AuditLoad(CLOCK, connections=2, rows_per_s=0, busy_threads=0)
    source = load_source(scene.deployment, world.name)
    with closing(
        DatabaseSide(source, world.name, "a", load, CLOCK, beyond=topic.position, range_rows=ROWS)
    ) as database:
        parts = parts or database.parts

        def copy(base: Base) -> CopySide:
            return CopySide(scene.spark, scene.deployment, scene.topic(), base, database.rows, parts, clock=CLOCK)

        copies = {"topic": copy(topic), "lake": copy(lake)}
        standing = {name: SnapshotSide(each, topic.position) for name, each in copies.items()}
        rows = all_rows(standing["topic"], parts)
        history = History(list(rows.items()), number=lambda _: len(rows), hashed=lambda _, row: md5(row))
        yield Sides(
            database,
            parts,
            {"database": database, **standing, "memory": SnapshotSide(Then(history), topic.position)},
            {**copies, "memory": Then(history)},
        )


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def all_rows(side: LeadingSide, parts: Sequence[KeyRange]) -> dict[str, str]:
    found = side.rows_of(dict.fromkeys(parts, range(1 << BITS)), BITS)
    return {key: row for each in found.values() for key, row in each.texts.items()}


@pytest.fixture
def kept(scene: TableAuditScenario, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableAuditScenario]:
    """A scene whose lake is kept."""
    with scene.lake(monkeypatch):
        scene.until_labelled()
        yield scene


def test_all_sides_give_the_same_of_a_range_whoever_leads_or_follows(kept: TableAuditScenario) -> None:
    with sides(kept) as opened:
        parts = opened.parts
        assert len(parts) > 5
        empty = parts[3]
        assert empty.after
        assert empty.upto
        kept.world.sql(f"DELETE FROM a WHERE id > {empty.after[0]} AND id <= {empty.upto[0]}")
    with sides(kept, parts) as opened:
        scanned = opened.database.leaves(parts, BITS)
        asked = [AsOfRange(part, each.span) for part, each in zip(parts, scanned, strict=True)]
        truth = [each.leaves for each in scanned]
        assert not truth[3]
        assert all(truth[:3])
        given: dict[str, list[ScannedRange]] = {n: side.leaves(parts, BITS) for n, side in opened.leading.items()}
        given |= {f"{name} then": side.leaves(asked, BITS) for name, side in opened.following.items()}
        for name, leaves in given.items():
            assert [each.leaves for each in leaves] == truth, name
        wanted = {part: sorted(leaves)[:2] for part, leaves in zip(parts, truth, strict=True)}
        rows: dict[str, dict[KeyRange, FoundRows]] = {n: s.rows_of(wanted, BITS) for n, s in opened.leading.items()}
        for name, side in opened.following.items():
            found = side.rows_of({each: wanted[each.rows] for each in asked}, BITS)
            rows[f"{name} then"] = {each.rows: there for each, there in found.items()}
            assert not any(each.unsure for each in found.values())
        for name, by_part in rows.items():
            assert {part: each.texts for part, each in by_part.items()} == {
                part: each.texts for part, each in rows["database"].items()
            }, name
        for part, numbers in wanted.items():
            texts = rows["database"][part].texts
            assert {leaf_of(key.encode(), BITS) for key in texts} == set(numbers)
            assert len(texts) == sum(truth[parts.index(part)][leaf].rows for leaf in numbers)


def test_whoever_follows_gives_each_range_as_of_its_own_moment(kept: TableAuditScenario) -> None:
    with sides(kept) as opened:
        parts = opened.parts
        before = opened.database.leaves(parts, BITS)
        kept.world.sql("UPDATE a SET v = CONCAT(v, ' anew')", "DELETE FROM a WHERE id % 5 = 0")
        after = opened.database.leaves(parts, BITS)
        # The last range lies behind all rows.
        assert all(one.leaves != other.leaves for one, other in zip(before[:-1], after[:-1], strict=True))
        mixed = [one if place % 2 else other for place, (one, other) in enumerate(zip(before, after, strict=True))]
        for name in ("topic", "lake"):
            asked = [AsOfRange(part, each.span) for part, each in zip(parts, mixed, strict=True)]
            assert opened.following[name].leaves(asked, BITS) == mixed, name


def test_any_two_sides_are_compared_and_what_is_wrong_between_them_is_found(kept: TableAuditScenario) -> None:
    kept.behind_the_log("UPDATE a SET v = 'lost' WHERE id = 77", "DELETE FROM a WHERE id = 78")
    kept.edit_lake("a", "v", 600, "forged")
    lost, forged = {"77": "altered", "78": "extra"}, {"600": "altered"}
    with sides(kept) as opened:
        told = {pair: opened.found(*pair) for pair in opened.pairs()}
    assert told == {
        ("database", "topic"): lost,
        ("database", "lake"): lost | forged,
        ("database", "memory"): lost,
        ("topic", "lake"): forged,
        ("topic", "memory"): {},
        ("lake", "topic"): forged,
        ("lake", "memory"): forged,
        ("memory", "topic"): {},
        ("memory", "lake"): forged,
    }
    report = kept.audit(against="lake", of="topic")
    assert [(each.kind, each.key) for each in report.found] == [("altered", {"id": "600"})]
    assert report.next_command == f"lyrebird table rebuild {kept.topic()}"
