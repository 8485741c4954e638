"""Tables of a log in memory: equal to their topics, once each, whatever ends the process on the way."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from include.errors import Fenced, Terminal
from include.lake.tables.generation import begin_generation, generations_of
from include.log import topics
from include.log.publishing.dead_letter import DeadLetter
from tests.unit.lake.tables.tables_harness import CHANGES, PLAIN, SOURCE, CrashError, TablesHarness, row_schema


def test_tables_equal_their_topics_and_tell_what_they_are_complete_to(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.some(80)
    process = world.process()
    counts = process.run(process.batch())
    assert world.equal()
    assert counts["read"] == sum(counts[name] for name in ("written", "deleted", "stale", "superseded", "below_floor"))
    ((version, _, label), *_) = process.runner._tables[CHANGES].log.labels(1)
    assert (version, label[SOURCE].sequence) == (1, 1)
    assert [label for *_, label in process.runner._tables[PLAIN].log.labels(1)] == [{}]


def test_a_step_that_is_gone_in_parts_has_no_label_before_its_end(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.some(60)
    process = world.process()
    while (plan := process.batch(5)).ends != plan.start:
        process.run(plan)
    log = process.runner._tables[CHANGES].log
    assert all(not label for _, _, label in log.labels(100))
    numbers = generations_of(world.store, "tables", CHANGES)
    assert numbers is not None
    assert numbers.serving == 0
    world.some(1)
    process.run(process.batch())
    assert [SOURCE in label for *_, label in log.labels(1)] == [True]
    assert world.equal()


def test_a_truncation_takes_rows_and_none_from_before_it_comes_back(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    for id_ in range(20):
        world.write(CHANGES, id_, {"amount": id_})
    process = world.process()
    process.run(process.batch())
    late = world.version
    world.truncate()
    world.write(CHANGES, 3, {"amount": 7})
    process.run(process.batch())
    assert len(world.held(CHANGES)) == 1
    world.write(CHANGES, 4, {"amount": 8}, version=late)
    again = world.process()
    counts = again.run(again.batch())
    assert counts["below_floor"] == 1
    assert world.equal()


def test_a_table_that_nothing_happened_to_gets_a_label_now_and_then(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.some(40)
    process = world.process()
    process.run(process.batch())
    before = process.runner.states[CHANGES].version
    for _ in range(5):
        world.clock.advance(10)
        process.run(process.batch())
    assert process.runner.states[CHANGES].version == before + 1


def test_what_no_column_can_hold_is_set_aside_once_and_the_rest_goes_on(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.write(PLAIN, 1, {"amount": 5})
    key = world.key({"id": 2})
    world.raw(PLAIN, key, b"no framing", 90)
    head = world.of_topic[PLAIN]({"id": 1, "amount": None})[:5]
    # An int of more than 32 bits.
    world.raw(PLAIN, key, head + bytes.fromhex("feffffffff7f") + b"\x00", 92)
    process = world.process()
    counts = process.run(process.batch())
    assert counts[f"refused {PLAIN}"] == 2
    assert counts[f"refused {CHANGES}"] == 0
    again = world.process()
    again.run(again.batch())
    dead = world.records(topics.dead(PLAIN, "tables"))
    assert sorted((DeadLetter.parse(each).record.headers for each in dead), key=str) == [
        (("version", b"90"),),
        (("version", b"92"),),
    ]
    assert [row for _, row in world.held(PLAIN).values()] == [{"id": 1, "amount": 5}]


class Counting:
    """A reader that counts what it is asked for."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.asked = inner, list[tuple[int, int]]()

    def read(self, topic: str, partition: int, start: int, end: int) -> Any:
        self.asked.append((start, end))
        return self._inner.read(topic, partition, start, end)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_topic_that_nobody_can_read_stops_the_stage_at_its_limit_and_is_not_read_again_whole(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.write(PLAIN, 1, {"amount": 5})
    for number in range(6_000):
        world.raw(PLAIN, world.key({"id": number}), b"no framing", number + 2)
    process = world.process()
    reader = process.runner._reader = Counting(process.runner._reader)
    with pytest.raises(Terminal, match="too many records cannot be understood"):
        process.run(process.batch())
    assert len(reader.asked) == 1
    assert world.records(topics.dead(PLAIN, "tables")) == []


def test_a_column_that_comes_is_null_in_the_rows_of_before_and_one_that_goes_in_those_after(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.some(30)
    process = world.process()
    process.run(process.batch())
    world.alter(row_schema({"name": "note", "type": ["null", "string"], "default": None}))
    world.write(CHANGES, 1, {"amount": 4, "note": "new"})
    process.run(process.batch())
    assert process.runner.states[CHANGES].schema.names[-1] == "note"
    world.alter({"type": "record", "name": "Value", "fields": row_schema()["fields"][:1]})
    world.write(CHANGES, 2, {})
    process.run(process.batch())
    assert world.equal(CHANGES)
    rows = {row["id"]: row for _, row in world.held(CHANGES).values()}
    assert rows[1]["note"] == "new"
    assert rows[2] == {"id": 2, "amount": None, "note": None}


def test_a_column_that_becomes_wider_is_so_in_all_rows(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.some(60)
    process = world.process()
    process.run(process.batch())
    world.alter(row_schema(amount="long"))
    world.write(CHANGES, 1, {"amount": 1 << 40})
    world.write(PLAIN, 1, {"amount": 1 << 41})
    process.run(process.batch())
    assert str(process.runner.states[CHANGES].schema.field("amount").type) == "int64"
    assert world.equal()


def test_a_column_of_another_kind_needs_a_new_generation_and_gets_one_on_request(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.some(40)
    process = world.process()
    process.run(process.batch())
    world.alter(row_schema(amount="string"))
    world.write(PLAIN, 1, {"amount": "ten"})
    with pytest.raises(Terminal, match=r"amount.*rebuild"):
        process.run(process.batch())
    for _, row in [*world.wanted(PLAIN).values()]:
        # As a snapshot of the table does.
        world.write(PLAIN, row["id"], {"amount": str(row["amount"])})
    begin_generation(world.store, "tables", PLAIN, 1)
    assert process.runner.asked_anew()
    again = world.process()
    again.run(again.batch())
    assert world.equal()


def test_a_topic_that_was_made_anew_begins_a_generation_beside_the_old_one(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.some(40)
    process = world.process()
    process.run(process.batch())
    old = len(world.held(CHANGES))
    admin = world.log.admin()
    admin.delete(CHANGES)
    TablesHarness.__post_init__(world)
    world.write(CHANGES, 77, {"amount": 1})
    again = world.process()
    numbers = generations_of(world.store, "tables", CHANGES)
    assert numbers is not None
    assert (numbers.serving, numbers.writing) == (1, 2)
    again.run(again.batch())
    numbers = generations_of(world.store, "tables", CHANGES)
    assert numbers is not None
    assert (numbers.serving, numbers.writing) == (2, 2)
    assert world.equal(CHANGES)
    assert old > len(world.held(CHANGES)) == 1


def test_a_topic_with_more_partitions_than_before_is_refused(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.some(10)
    process = world.process()
    process.run(process.batch())
    world.log.grow(PLAIN, 4)
    with pytest.raises(Terminal, match=r"partitions.*rebuild"):
        world.process()


def test_a_table_that_stood_still_for_longer_than_deletions_are_kept_asks_for_a_new_generation(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.some(10)
    process = world.process()
    process.run(process.batch())
    world.clock.advance(6 * 86_400)
    process.run(process.batch())
    world.clock.advance(2 * 86_400)
    # Nothing happened to it in these eight days, and it has said so.
    process = world.process()
    process.run(process.batch())
    world.clock.advance(8 * 86_400)
    with pytest.raises(Terminal, match=r"deletions.*rebuild"):
        world.process()


def test_a_second_process_ends_the_first(tmp_path: Path) -> None:
    world = TablesHarness(tmp_path)
    world.some(20)
    first, second = world.process(), world.process()
    second.run(second.batch())
    world.some(20)
    with pytest.raises(Fenced):
        first.run(first.batch())
    third = world.process()
    third.run(third.batch())
    assert world.equal()


@pytest.mark.parametrize("behind", [False, True])
def test_a_process_that_dies_at_any_durable_call_leaves_tables_that_go_on(tmp_path: Path, behind: bool) -> None:
    died = 0
    for call in range(1, 40):
        world = TablesHarness(tmp_path / f"{behind}{call}", random.Random(call))
        world.some(25)
        world.raw(PLAIN, world.key({"id": 5}), b"broken", 10**6)
        world.crashes.left, world.crashes.behind = call, behind
        for step in range(3):
            try:
                process = world.process()
                process.run(process.batch(None if step % 2 else 7))
            except CrashError:
                died += 1
            world.some(10)
            if step == 1:
                world.truncate()
                world.alter(row_schema({"name": "note", "type": ["null", "string"], "default": None}))
                world.write(CHANGES, 1, {"amount": 4, "note": "new"})
        world.crashes.left = -1
        process = world.process()
        process.run(process.batch())
        assert world.equal()
        assert len(world.records(topics.dead(PLAIN, "tables"))) == 1
    assert died > 20
