"""Tombstones go once no older state can come after them; whatever happens meanwhile, nothing deleted lives again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.clock import ManualClock
from include.errors import Terminal, Transient
from include.index.bulk.request import document_line
from include.index.definition import IndexTopic
from include.index.feed import Feed, PartitionNumber
from include.index.identity import DocumentIdentity
from include.index.metadata import Metadata, TopicOrigin
from include.index.progress.document import NOTES, ProgressKeeper
from include.index.server.memory import MemoryIndex
from include.index.server.port import BulkAnswer, ItemAnswer
from include.index.states import States
from include.index.upkeep.purge import ProtectedDocuments, Purge, PurgeResult, horizon_ms, protected
from include.log.memory import MemoryLog, MemoryRegistry
from tests.support.documents.topic import MAPPING, DocumentTopic

NAME, TOPIC = "orders-v1", "docs"
DAY_S = 86_400
WEEK_MS = 7 * DAY_S * 1000
NOTHING = ProtectedDocuments()


class Harness:
    """An index that has read one partition of its topic: odd keys live, even ones were deleted."""

    def __init__(self, count: int = 10) -> None:
        self.index, self.clock = MemoryIndex(), ManualClock()
        self.index.create(NAME, {"mappings": MAPPING})
        info = self.index.describe(NAME)
        assert info is not None
        self.info = info
        self.keeper = ProgressKeeper(self.index, info, TOPIC, "owner", self.clock)
        self.progress = self.keeper.claim()
        for n in range(count):
            self.write(n, version=n + 1, offset=n, deleted=n % 2 == 0)
        self.stand(count)

    def write(self, n: int, *, version: int, offset: int, deleted: bool) -> int:
        metadata, body = Metadata(TopicOrigin("c", "t", TOPIC, 1)), None if deleted else b'{"state":"completed"}'
        said = (
            metadata.deleted(0, offset, str(n), version)
            if body is None
            else metadata.living(0, offset, str(n), version, body)
        )
        line = document_line(n, DocumentIdentity(str(n), version), "order", body, said)
        items = self.index.bulk(NAME, line.data).items
        assert items is not None
        return items[0].status

    def stand(self, searchable: int, **changes: Any) -> None:
        vector = {0: searchable}
        self.progress = dataclasses.replace(
            self.progress, acked=vector, searchable=vector, **{"topic_ids": {TOPIC: "id-1"}, **changes}
        )
        self.keeper.save(self.progress)

    def purge(
        self, *, keeps: ProtectedDocuments = NOTHING, dry_run: bool = False, per_second: int = 10**6
    ) -> PurgeResult:
        purge = Purge(self.index, self.info, TOPIC, self.clock, per_second=per_second)
        return purge.run(WEEK_MS, keeps=lambda: keeps, on_progress=lambda _: None, dry_run=dry_run)

    def week(self) -> None:
        self.clock.advance(7 * DAY_S)

    def there(self) -> set[str]:
        return {str(n) for n in range(100) if self.index.get(NAME, str(n)) is not None}


def test_a_first_run_marks_and_one_after_the_horizon_purges_what_lay_below_the_mark() -> None:
    world = Harness()
    first = world.purge()
    assert (first.since, first.purged, len(world.there())) == (None, 0, 10)
    assert "no mark is old enough" in first.why
    # What was deleted since is younger than the mark.
    world.write(1, version=50, offset=10, deleted=True)
    world.stand(11)
    world.week()
    out = world.purge()
    assert (out.past_use, out.purged, out.kept, out.changed, out.why) == (5, 5, 0, 0, "")
    assert world.there() == {"1", "3", "5", "7", "9"}
    found = world.index.get(NAME, "1")
    assert found is not None
    assert found.deleted
    assert world.purge().past_use == 0


def test_before_the_horizon_nothing_goes() -> None:
    world = Harness()
    world.purge()
    world.clock.advance(7 * DAY_S - 1)
    assert world.purge().past_use == 0
    assert len(world.there()) == 10


def test_a_dry_run_counts_and_leaves_no_trace() -> None:
    world = Harness()
    assert "a first run that is not dry" in world.purge(dry_run=True).why
    world.week()
    assert world.purge(dry_run=True).since is None
    world.purge()
    world.week()
    before = dict(world.index._notes)
    out = world.purge(dry_run=True)
    assert (out.past_use, out.purged, len(world.there())) == (5, 0, 10)
    assert world.index._notes == before


def test_daily_runs_keep_few_marks_and_purge_daily() -> None:
    world = Harness(0)
    purged = 0
    for day in range(60):
        world.write(day, version=day + 1, offset=day, deleted=True)
        world.stand(day + 1)
        purged += world.purge().purged
        world.clock.advance(DAY_S)
    assert purged >= 60 - 10
    (marks,) = (note.source["marks"] for (_, key), note in world.index._notes.items() if key.endswith(".purge"))
    assert len(marks) <= 10


def test_one_that_lives_again_or_is_deleted_anew_while_its_page_is_deleted_stays() -> None:
    world = Harness()
    world.purge()
    world.week()
    bulk = world.index.bulk

    def late(name: str, lines: bytes) -> BulkAnswer:
        world.index.bulk = bulk  # type: ignore[method-assign]
        assert world.write(0, version=60, offset=20, deleted=False) == 200
        assert world.write(2, version=61, offset=21, deleted=True) == 200
        return bulk(name, lines)

    world.index.bulk = late  # type: ignore[method-assign]
    out = world.purge()
    assert (out.purged, out.changed) == (3, 2)
    living = world.index.get(NAME, "0")
    assert living is not None
    assert (living.version, living.deleted) == (60, False)
    assert "2" in world.there()


def test_the_next_state_of_a_purged_document_is_taken_however_near_its_version() -> None:
    world = Harness()
    world.purge()
    world.week()
    world.purge()
    assert world.write(4, version=6, offset=30, deleted=False) == 201


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["write_note", "bulk 1", "bulk 2", "bulk 3"])
def test_a_crash_at_any_step_leaves_what_the_next_run_ends(
    step: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("include.index.upkeep.purge._PAGE", 2)
    world = Harness()
    world.purge()
    world.week()
    name, _, at = step.partition(" ")
    call: Callable[..., Any] = getattr(world.index, name)
    left = int(at or 1)

    def dying(*args: Any) -> Any:
        nonlocal left
        left -= 1
        if left:
            return call(*args)
        if after:
            call(*args)
        raise Killed

    monkeypatch.setattr(world.index, name, dying)
    with pytest.raises(Killed):
        world.purge()
    monkeypatch.setattr(world.index, name, call)
    world.purge()
    assert world.there() == {"1", "3", "5", "7", "9"}
    assert world.purge().past_use == 0


def test_what_dead_letters_are_of_stays_and_all_behind_one_that_nobody_can_read() -> None:
    world = Harness()
    world.purge()
    world.week()
    out = world.purge(keeps=ProtectedDocuments(frozenset({"2"}), {0: 6}))
    assert (out.past_use, out.purged, out.kept) == (3, 2, 1)
    assert world.there() == {"1", "2", "3", "5", "6", "7", "8", "9"}


def test_dead_letters_protect_their_documents_and_unreadable_keys_their_partition() -> None:
    log, registry = MemoryLog(), MemoryRegistry()
    topic = DocumentTopic(TOPIC, log.admin(), log.writer("w"), registry)
    topic.put(7)
    topic.spoil(3, b"\x01")
    reader = log.reader()
    records = [r for p, end in reader.end_offsets(TOPIC).items() for r in reader.read(TOPIC, p, 0, end)]
    states = States(Feed(TopicOrigin("c", "t", TOPIC, 1), IndexTopic(entity="order")), registry)
    assert protected(records, states) == ProtectedDocuments(frozenset({"7", "3"}))
    broken = dataclasses.replace(records[0], key=b"\x01", offset=40)
    later = dataclasses.replace(broken, offset=50)
    assert protected([later, broken], states).behind == {broken.partition: 40}


def test_what_a_floor_deleted_since_the_mark_stays_though_its_record_is_old() -> None:
    world = Harness()
    world.stand(10, floors={"shop.orders": 3})
    world.purge()
    world.write(1, version=499, offset=1, deleted=True)
    world.stand(10, floors={"shop.orders": 500})
    world.week()
    out = world.purge()
    # Only the tombstone below the floor that the mark knew.
    assert (out.past_use, "1" in world.there()) == (1, True)
    world.week()
    assert world.purge().past_use == 5
    assert "1" not in world.there()


def test_an_index_that_reads_its_topic_anew_is_left_alone() -> None:
    world = Harness()
    world.purge()
    world.week()
    world.stand(4)
    with pytest.raises(Transient, match="reads its topic anew"):
        world.purge()
    world.stand(20, topic_ids={TOPIC: "id-2"})
    out = world.purge()
    assert (out.since, out.purged) == (None, 0)
    assert len(world.there()) == 10


def test_an_index_that_begins_anew_between_two_pages_is_left_alone_from_there_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("include.index.upkeep.purge._PAGE", 2)
    world = Harness()
    world.purge()
    world.week()
    bulk = world.index.bulk

    def anew(name: str, data: bytes) -> BulkAnswer:
        world.stand(0)
        return bulk(name, data)

    monkeypatch.setattr(world.index, "bulk", anew)
    with pytest.raises(Transient, match="reads its topic anew"):
        world.purge()
    assert world.there() == {"1", "3", "4", "5", "6", "7", "8", "9"}


def test_a_topic_that_has_grown_and_an_index_that_was_made_anew_are_refused() -> None:
    world = Harness()
    world.stand(10, partitions=(PartitionNumber(1, {0: 5}), PartitionNumber(2)))
    with pytest.raises(Terminal, match="has grown"):
        world.purge()
    world = Harness()
    world.index.drop(NAME)
    world.index.create(NAME, {"mappings": MAPPING})
    with pytest.raises(Terminal, match="made anew"):
        world.purge()


def test_another_purge_at_the_same_time_is_found_out() -> None:
    world = Harness()
    note = world.index.note
    world.index.note = lambda name, note_id: None if note_id.endswith(".purge") else note(name, note_id)  # type: ignore[method-assign]
    world.purge()
    with pytest.raises(Transient, match="another purge"):
        world.purge()


def test_an_index_that_was_never_written_has_nothing_to_purge() -> None:
    world = Harness(0)
    world.index._notes.clear()
    assert world.purge().why == "nothing was indexed yet"


@pytest.mark.parametrize(
    "answer",
    [BulkAnswer(0), BulkAnswer(429), BulkAnswer(503), BulkAnswer(200, []), BulkAnswer(200, [ItemAnswer(503)] * 5)],
)
def test_a_server_that_is_busy_is_asked_again(answer: BulkAnswer) -> None:
    world = Harness()
    world.purge()
    world.week()
    world.index.answers.extend([answer, answer])
    assert world.purge().purged == 5


def test_a_refusal_is_told() -> None:
    world = Harness()
    world.purge()
    world.week()
    world.index.answers.append(BulkAnswer(200, [ItemAnswer(403, "security_exception")] * 5))
    with pytest.raises(Terminal, match="refuses a deletion"):
        world.purge()


def test_deletions_are_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("include.index.upkeep.purge._PAGE", 2)
    world = Harness(20)
    world.purge()
    world.week()
    before_s = world.clock.monotonic_s()
    assert world.purge(per_second=5).purged == 10
    assert world.clock.monotonic_s() - before_s == pytest.approx(2)


def test_the_horizon_is_as_long_as_deletions_are_kept_and_a_day_at_least() -> None:
    assert [horizon_ms(kept) for kept in (0, 30 * DAY_S * 1000, None)] == [DAY_S * 1000, 30 * DAY_S * 1000, WEEK_MS]


def test_dropping_a_generation_forgets_its_marks() -> None:
    world = Harness()
    world.purge()
    assert any(key.endswith(".purge") for _, key in world.index._notes)
    world.index.forget_notes(NOTES, NAME)
    assert not any(key.endswith(".purge") for _, key in world.index._notes)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 4), st.booleans()),
            st.tuples(st.just("stand"), st.just(0), st.just(False)),
            st.tuples(st.just("days"), st.integers(1, 9), st.just(False)),
            st.tuples(st.just("purge"), st.just(0), st.just(False)),
            st.tuples(st.just("again"), st.just(0), st.just(False)),
            st.tuples(st.just("late"), st.integers(0, 6), st.just(False)),
        ),
        max_size=40,
    )
)
def test_whatever_the_order_what_lives_is_what_the_log_says(steps: list[tuple[str, int, bool]]) -> None:
    world = Harness(0)
    log: list[tuple[int, bool]] = []
    stood, settled = 0, 0
    for kind, n, deleted in steps:
        if kind == "write":
            log.append((n, deleted))
            world.write(n, version=len(log), offset=len(log) - 1, deleted=deleted)
        elif kind == "stand":
            stood = len(log)
            world.stand(stood)
        elif kind == "days":
            world.clock.advance(n * DAY_S)
            settled = stood
        elif kind == "purge":
            world.purge()
        elif kind == "late":
            # A writer that was taken for dead, with one record that is a day old at most.
            for offset in range(min(stood, settled), len(log))[n : n + 1]:
                world.write(log[offset][0], version=offset + 1, offset=offset, deleted=log[offset][1])
        else:
            # A restart.
            for offset in range(stood, len(log)):
                world.write(log[offset][0], version=offset + 1, offset=offset, deleted=log[offset][1])
        newest = {key: gone for key, gone in log}
        living = {key for key in newest if (found := world.index.get(NAME, str(key))) and not found.deleted}
        assert living == {key for key, gone in newest.items() if not gone}
