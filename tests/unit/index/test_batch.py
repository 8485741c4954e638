"""The driver's steps, with the process killed before and after each of them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Fenced, Terminal, Transient
from include.index.batch import Settlement, dead_group
from include.index.delivery import Delivery
from include.index.memory import MemoryIndex
from include.index.metadata import Origin
from include.index.progress import Progress, ProgressKeeper, read_progress
from include.index.task import IndexTask, TaskOutcome
from include.log import topics
from include.log.dead_letter import DeadLetter, DeadLetterLimit
from include.log.memory import MemoryLog, MemoryRegistry
from include.record.codec import Decoder
from tests.document_topic import MAPPING, DocumentTopic

NAME, APPLICATION = "orders-v1", "index_orders"
DEAD = topics.dead("docs", APPLICATION)


class Killed(BaseException):
    """The process is gone: nothing is cleaned up."""


class World:
    """A log and an index that outlive the processes between them."""

    def __init__(self) -> None:
        self.log, self.registry, self.index = MemoryLog(), MemoryRegistry(), MemoryIndex()
        self.index.create(NAME, {"mappings": MAPPING})
        self.topic = DocumentTopic("docs", self.log.admin(), self.log.writer("w"), self.registry)
        self.log.admin().ensure(topics.document_spec(DEAD, 1))

    def progress(self) -> Progress:
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

    def __init__(self, world: World, kill_at: int | None = None, *, after: bool = False, limit: int = 100) -> None:
        self.world = world
        self._left, self._after = kill_at, after
        info = world.index.describe(NAME)
        assert info is not None
        self.keeper = ProgressKeeper(world.index, info, "docs", f"owner-{id(self)}", ManualClock())
        progress = self.keeper.claim()
        writer = world.log.writer(dead_group(APPLICATION, "docs"))
        self._fuse(writer, "commit")
        self._fuse(self.keeper, "save")
        self.settlement = Settlement(
            application=APPLICATION,
            info=info,
            index=world.index,
            keeper=self.keeper,
            progress=progress,
            writer=writer,
            reader=world.log.reader(),
            limit=DeadLetterLimit(1.0, limit),
            clock=ManualClock(),
        )

    def batch(self) -> TaskOutcome:
        """Index all that is new and settle it."""
        world, progress = self.world, self.settlement.progress
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
            origin=Origin("c", "t", "docs", 1),
            entity="order",
            decode=Decoder(world.registry.schema),
            delivery=Delivery(
                lambda data: world.index.bulk(NAME, data), ManualClock(), index=NAME, bulk_bytes=10_000, patience_s=5
            ),
            window_bytes=10_000,
        )
        outcome = task.run(records)
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


def story(world: World) -> None:
    world.topic.write([(n, {"state": "completed"}) for n in range(1, 6)])
    world.topic.delete(2)
    world.topic.spoil(3, b"\x01")
    world.topic.put(4, note="no number")
    world.topic.resolve()


def state(world: World) -> Any:
    documents = {n: world.index.get(NAME, str(n)) for n in range(1, 7)}
    letters = sorted((x.record.partition, x.record.offset) for x in world.dead())
    complete = world.progress().complete
    return documents, letters, world.progress().acked, complete and str(complete.gtids)


def test_a_batch_moves_progress_to_its_ends_and_names_the_position_that_is_complete() -> None:
    world = World()
    story(world)
    Process(world).batch()
    documents, letters, acked, complete = state(world)
    assert acked == world.log.reader().end_offsets("docs")
    assert complete == "0-1-1"
    assert len(letters) == 2
    assert documents[2].deleted
    assert world.progress().topic_ids == {"docs": "id-1"}


@pytest.mark.parametrize(("kill_at", "after"), list(itertools.product(range(1, 4), (False, True))))
def test_a_crash_at_any_step_loses_nothing_and_doubles_nothing(kill_at: int, after: bool) -> None:
    whole = World()
    story(whole)
    Process(whole).batch()
    world = World()
    story(world)
    with pytest.raises(Killed):
        Process(world, kill_at, after=after).batch()
    Process(world).batch()
    assert state(world) == state(whole)
    world.topic.put(6)
    Process(world).batch()
    assert world.index.get(NAME, "6") is not None
    assert len(world.dead()) == 2


def test_the_same_batch_again_in_one_process_writes_no_dead_letter_twice() -> None:
    world = World()
    story(world)
    process = Process(world)
    process.batch()
    process.settlement.progress = Progress("docs")
    process.batch()
    assert len(world.dead()) == 2


def test_an_older_process_is_fenced_by_the_progress_document() -> None:
    world = World()
    world.topic.put(1)
    old = Process(world)
    Process(world).batch()
    with pytest.raises(Fenced, match="another process"):
        old.batch()


def test_a_batch_that_waits_is_not_settled() -> None:
    world = World()
    process = Process(world)
    outcome = TaskOutcome()
    outcome.counts["waiting"] = 1
    with pytest.raises(Terminal, match="not settled"):
        process.settlement.settle(outcome, {}, {})


def test_an_index_that_was_made_anew_meanwhile_stops_the_stage_before_progress_moves() -> None:
    world = World()
    world.topic.put(1)
    process = Process(world)
    world.index.drop(NAME)
    world.index.create(NAME, {"mappings": MAPPING})
    with pytest.raises(Terminal, match="lost or made anew"):
        process.batch()
    Process(world).batch()
    assert world.index.get(NAME, "1") is not None


def test_too_many_bad_records_in_a_row_stop_the_stage_and_none_is_written() -> None:
    world = World()
    for n in range(12):
        world.topic.spoil(n, b"\x01")
    with pytest.raises(Terminal, match="too many"):
        Process(world, limit=10).batch()
    assert world.dead() == []
    assert world.progress().acked == {}


def test_a_write_of_progress_whose_answer_was_lost_is_recognised_as_ours() -> None:
    world = World()
    process = Process(world)
    write = world.index.write_note
    lose = iter([True])

    def lossy(*args: Any) -> Any:
        done = write(*args)
        if next(lose, False):
            raise Transient("answer lost", system="elasticsearch")
        return done

    world.index.write_note = lossy  # type: ignore[method-assign]
    moved = Progress("docs", acked={0: 7})
    with pytest.raises(Transient):
        process.keeper.save(moved)
    process.keeper.save(moved)
    assert world.progress().acked == {0: 7}


def test_progress_never_goes_back() -> None:
    world = World()
    world.topic.put(1)
    process = Process(world)
    process.batch()
    before = process.settlement.progress.acked
    process.settlement.settle(TaskOutcome(), {("docs", 0): 0}, {})
    assert process.settlement.progress.acked == before
