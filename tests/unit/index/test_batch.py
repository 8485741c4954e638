"""The driver's steps, with the process killed before and after each of them."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Fenced, Terminal, Transient
from include.index.batch import Settlement
from include.index.bulk.sender import Delivery
from include.index.dead_letters import DeadLetters, dead_group
from include.index.definition import IndexTopic
from include.index.feed import Feed
from include.index.metadata import TopicOrigin
from include.index.outcome import SETTLED, SetAsideRecord, TaskOutcome
from include.index.progress.document import IndexProgress, ProgressKeeper, read_progress
from include.index.server.memory import MemoryIndex
from include.index.server.port import IndexInfo
from include.index.states import States
from include.index.task import IndexTask, raw_of
from include.log import topics
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import Record
from include.log.publishing.dead_letter import DeadLetter, DeadLetterLimit
from tests.support.documents.topic import MAPPING, DocumentTopic

NAME, APPLICATION = "orders-v1", "index_orders"
DEAD = topics.dead("docs", APPLICATION)


class Killed(BaseException):
    """The process is gone: nothing is cleaned up."""


class Harness:
    """A log and an index that outlive the processes between them."""

    def __init__(self) -> None:
        self.log, self.registry, self.index = MemoryLog(), MemoryRegistry(), MemoryIndex()
        self.index.create(NAME, {"mappings": MAPPING})
        self.topic = DocumentTopic("docs", self.log.admin(), self.log.writer("w"), self.registry)
        self.log.admin().ensure(topics.document_spec(DEAD, 1))

    def progress(self) -> IndexProgress:
        info = self.index.describe(NAME)
        assert info is not None
        found = read_progress(self.index, info, "docs")
        assert found is not None
        return found

    def dead(self) -> list[DeadLetter]:
        reader = self.log.reader()
        return [DeadLetter.parse(r) for r in reader.read(DEAD, 0, 0, reader.end_offsets(DEAD)[0])]


class Process:
    """One life of the application. `kill_at` counts the durable calls; the one of that number does not return."""

    def __init__(
        self,
        world: Harness,
        kill_at: int | None = None,
        *,
        after: bool = False,
        limit: int = 100,
        refresh_s: float = 0.0,
    ) -> None:
        self.world, self.clock = world, ManualClock()
        self._left, self._after = kill_at, after
        info = world.index.describe(NAME)
        assert info is not None
        self.keeper = ProgressKeeper(world.index, info, "docs", f"owner-{id(self)}", ManualClock())
        progress = self.keeper.claim()
        writer = world.log.writer(dead_group(APPLICATION))
        self._fuse(writer, "commit")
        self._fuse(world.index, "refresh")
        self._fuse(self.keeper, "save")
        self.settlement = Settlement(
            info=info,
            index=world.index,
            keepers={"docs": self.keeper},
            progress={"docs": progress},
            letters=DeadLetters(
                application=APPLICATION,
                limits={"docs": DeadLetterLimit(1.0, limit)},
                writer=writer,
                reader=world.log.reader(),
                clock=self.clock,
            ),
            clock=self.clock,
            refresh_s=refresh_s,
        )

    def batch(self) -> TaskOutcome:
        """Index all that is new and settle it."""
        world, progress = self.world, self.settlement.progress["docs"]
        reader = world.log.reader()
        ends: dict[tuple[str, int], int] = {}
        records = []
        for topic, acked in (
            (world.topic.name, progress.acked),
            (world.topic.resolved_name, progress.resolved_acked),
        ):
            for p, end in reader.end_offsets(topic).items():
                ends[topic, p] = end
                records += list(reader.read(topic, p, acked.get(p, 0), end))
        task = IndexTask(
            states={"docs": States(Feed(TopicOrigin("c", "t", "docs", 1), IndexTopic(entity="order")), world.registry)},
            delivery=Delivery(
                lambda data: world.index.bulk(NAME, data), ManualClock(), index=NAME, bulk_bytes=10_000, patience_s=5
            ),
            window_bytes=10_000,
        )
        outcome = task.run(map(raw_of, records))
        self._burn(lambda: None)
        self.settlement.settle(outcome, ends, {"docs": "id-1"})
        return outcome

    def _fuse(self, owner: Any, name: str) -> None:
        call = getattr(owner, name)
        setattr(owner, name, lambda *args, **named: self._burn(lambda: call(*args, **named)))

    def _burn(self, call: Any) -> Any:
        if self._left is not None:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
        result = call()
        if self._left == 0 and self._after:
            raise Killed
        return result


def story(world: Harness) -> None:
    world.topic.write([(n, {"state": "completed"}) for n in range(1, 6)])
    world.topic.delete(2)
    world.topic.spoil(3, b"\x01")
    world.topic.put(4, note="no number")
    world.topic.resolve()


def state(world: Harness) -> Any:
    documents = {n: world.index.get(NAME, str(n)) for n in range(1, 7)}
    letters = sorted((x.record.partition, x.record.offset) for x in world.dead())
    complete = world.progress().complete
    progress = world.progress()
    read = {p: counts["read"] for p, counts in progress.counts.items()}
    return documents, letters, progress.acked, progress.searchable, read, complete and str(complete.gtids)


def test_a_batch_moves_progress_to_its_ends_and_names_the_position_that_is_complete() -> None:
    world = Harness()
    story(world)
    Process(world).batch()
    documents, letters, acked, searchable, _, complete = state(world)
    assert acked == searchable == world.log.reader().end_offsets("docs")
    assert world.progress().visible == world.progress().complete
    assert complete == "0-1-1"
    assert len(letters) == 2
    assert documents[2].deleted
    assert world.progress().topic_ids == {"docs": "id-1"}


@pytest.mark.parametrize(("kill_at", "after"), list(itertools.product(range(1, 5), (False, True))))
def test_a_crash_at_any_step_loses_nothing_and_doubles_nothing(kill_at: int, after: bool) -> None:
    whole = Harness()
    story(whole)
    Process(whole).batch()
    world = Harness()
    story(world)
    with pytest.raises(Killed):
        Process(world, kill_at, after=after).batch()
    del world.index.refresh
    Process(world).batch()
    assert state(world) == state(whole)
    world.topic.put(6)
    Process(world).batch()
    assert world.index.get(NAME, "6") is not None
    assert len(world.dead()) == 2


def test_what_became_of_each_record_of_a_partition_is_kept_with_its_offsets() -> None:
    world = Harness()
    story(world)
    process = Process(world)
    process.batch()
    world.topic.put(1)
    world.topic.delete(5)
    process.batch()
    for p, counts in world.progress().counts.items():
        assert counts["read"] == sum(counts.get(name, 0) for name in SETTLED)
        end = world.log.reader().end_offsets("docs")[p]
        assert counts["read"] == sum(1 for _ in world.log.reader().read("docs", p, 0, end))
    total = {name: sum(of.get(name, 0) for of in world.progress().counts.values()) for name in SETTLED}
    assert (total["deleted"], total["dead"]) == (2, 2)


def test_searches_are_refreshed_no_oftener_than_asked_for_and_told_how_far_they_see() -> None:
    world = Harness()
    process = Process(world, refresh_s=10)
    for n in (1, 2):
        world.topic.put(n)
        world.topic.resolve()
        process.batch()
    ends = world.log.reader().end_offsets("docs")
    assert world.progress().acked == ends
    assert world.progress().searchable != ends
    assert set(world.index.visible(NAME)) == {"1"}
    process.settlement.freshen()
    assert set(world.index.visible(NAME)) == {"1"}
    process.clock.advance(10)
    process.settlement.freshen()
    assert set(world.index.visible(NAME)) == {"1", "2"}
    assert world.progress().searchable == ends
    visible = world.progress().visible
    assert visible is not None
    assert str(visible.gtids) == "0-1-2"


def test_the_same_batch_again_in_one_process_writes_no_dead_letter_twice() -> None:
    world = Harness()
    story(world)
    process = Process(world)
    process.batch()
    process.settlement.progress["docs"] = IndexProgress("docs")
    process.batch()
    assert len(world.dead()) == 2


def test_an_older_process_is_fenced_by_the_progress_document() -> None:
    world = Harness()
    world.topic.put(1)
    old = Process(world)
    Process(world).batch()
    with pytest.raises(Fenced, match="another process"):
        old.batch()


def test_a_batch_that_waits_is_not_settled() -> None:
    world = Harness()
    process = Process(world)
    outcome = TaskOutcome()
    outcome.waiting = True
    with pytest.raises(Terminal, match="not settled"):
        process.settlement.settle(outcome, {}, {})


def test_an_index_that_was_made_anew_meanwhile_stops_the_stage_before_progress_moves() -> None:
    world = Harness()
    world.topic.put(1)
    process = Process(world)
    world.index.drop(NAME)
    world.index.create(NAME, {"mappings": MAPPING})
    with pytest.raises(Terminal, match="lost or made anew"):
        process.batch()
    Process(world).batch()
    assert world.index.get(NAME, "1") is not None


def test_an_index_that_was_made_anew_under_its_old_name_sets_aside_what_it_refuses_itself() -> None:
    world = Harness()
    world.topic.put(1, note="5")
    world.topic.put(2)
    Process(world).batch()
    assert world.dead() == []
    world.topic.put(3, note="no number")
    Process(world).batch()
    before = len(world.dead())
    world.index.drop(NAME)
    stricter = copy.deepcopy(MAPPING)
    stricter["properties"]["order"]["properties"]["note"] = {"type": "boolean"}
    world.index.create(NAME, {"mappings": stricter})
    again = Process(world)
    again.batch()
    assert [letter.key for letter in world.dead()[before:]] == [world.topic.key(1), world.topic.key(3)]
    assert {letter.topic_id for letter in world.dead()} == {"id-1"}


def test_a_batch_that_is_settled_again_after_half_of_its_documents_were_noted_counts_each_record_once() -> None:
    world = Harness()
    other = DocumentTopic("more", world.log.admin(), world.log.writer("o"), world.registry)
    world.topic.put(1)
    other.put(1)
    process = Process(world)
    info = process.settlement.info
    keeper = ProgressKeeper(world.index, info, "more", "me", ManualClock())
    both = Settlement(
        info=info,
        index=world.index,
        keepers={"docs": process.keeper, "more": keeper},
        progress={"docs": process.settlement.progress["docs"], "more": keeper.claim()},
        letters=process.settlement._letters,
        clock=ManualClock(),
    )
    outcome = TaskOutcome()
    ends = {}
    for topic in ("docs", "more"):
        for p, end in world.log.reader().end_offsets(topic).items():
            outcome.of(topic, p).update(read=end, indexed=end)
            ends[topic, p] = end
    save = keeper.save

    def away(progress: IndexProgress) -> None:
        raise Transient("away", system="elasticsearch")

    keeper.save = away  # type: ignore[method-assign]
    with pytest.raises(Transient):
        both.settle(outcome, ends, {})
    keeper.save = save  # type: ignore[method-assign]
    both.settle(outcome, ends, {})
    for topic in ("docs", "more"):
        assert {p: of["read"] for p, of in both.progress[topic].counts.items()} == both.progress[topic].acked


def test_too_many_bad_records_in_a_row_stop_the_stage_and_none_is_written() -> None:
    world = Harness()
    for n in range(12):
        world.topic.spoil(n, b"\x01")
    with pytest.raises(Terminal, match="too many"):
        Process(world, limit=10).batch()
    assert world.dead() == []
    assert world.progress().acked == {}


def test_a_write_of_progress_whose_answer_was_lost_is_recognised_as_ours() -> None:
    world = Harness()
    process = Process(world)
    write = world.index.write_note
    lose = iter([True])

    def lossy(*args: Any) -> Any:
        done = write(*args)
        if next(lose, False):
            raise Transient("answer lost", system="elasticsearch")
        return done

    world.index.write_note = lossy  # type: ignore[method-assign,assignment]
    moved = IndexProgress("docs", acked={0: 7})
    with pytest.raises(Transient):
        process.keeper.save(moved)
    process.keeper.save(moved)
    assert world.progress().acked == {0: 7}


def test_progress_never_goes_back() -> None:
    world = Harness()
    world.topic.put(1)
    process = Process(world)
    process.batch()
    before = process.settlement.progress["docs"].acked
    process.settlement.settle(TaskOutcome(), {("docs", 0): 0}, {})
    assert process.settlement.progress["docs"].acked == before


def test_each_index_of_an_application_has_a_writer_of_dead_letters_of_its_own() -> None:
    world, info = Harness(), IndexInfo("order_lines-v1", "u", {}, {})
    groups = [dead_group("a"), dead_group("a", part="orders"), dead_group("a", part="order_lines")]
    assert groups == ["a.dead", "a.orders.dead", "a.order_lines.dead"]
    assert dead_group("a", info, "order_lines") == dead_group("a", info) == "a.order_lines-v1.u.dead"
    letters = DeadLetters(
        application=APPLICATION,
        limits={"docs": DeadLetterLimit(1.0, 100)},
        writer=world.log.writer(dead_group(APPLICATION, part="orders")),
        reader=world.log.reader(),
        clock=ManualClock(),
        part="orders",
    )
    bad = SetAsideRecord(Record("docs", 0, 3, b"k", b"v", (), 0), "bad")
    letters.settle(info, {"docs": [bad]}, {"docs": 1}, {("docs", 0): 4})
    assert world.log.reader().committed(f"{APPLICATION}.orders.dead", "docs") == {0: 4}
