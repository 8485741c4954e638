"""A generation filled from its topic beside the one that serves: planned, killed anywhere, followed, never doubled."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Fenced, Terminal, Transient
from include.index.batch import Settlement
from include.index.bulk.sender import Delivery
from include.index.dead_letters import DeadLetters, dead_group
from include.index.generations.active import read_fed, serving_or_none
from include.index.generations.create import first_index
from include.index.generations.promote import promote, standing
from include.index.generations.rebuild.deployed import ending_on_sigterm
from include.index.generations.rebuild.fill import FillAnswer
from include.index.generations.rebuild.pace import RebuildProgress
from include.index.generations.rebuild.plan import RebuildPlan, make_plan
from include.index.generations.rebuild.run import ProgressReporter, RebuildContext, RebuiltGeneration, rebuild
from include.index.generations.rebuild_note import read_rebuild
from include.index.mapping.declared import creation
from include.index.name import IndexName
from include.index.outcome import TaskOutcome
from include.index.progress.document import IndexProgress, ProgressKeeper, read_progress
from include.index.progress.steps import resumed
from include.index.server.memory_admin import MemoryAdmin
from include.index.server.port import BulkAnswer, IndexInfo, IndexNote
from include.index.states import States, feed_of
from include.index.task import IndexTask, raw_of
from include.index.worker import NumberedRange
from include.log import topics
from include.log.control import ControlRecord
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.planning.slices import Slice
from include.log.publishing.dead_letter import DeadLetterLimit
from include.settings.connections import Cluster
from tests.support.documents.topic import MAPPING, DocumentTopic, one_topic

DEFINITION = one_topic("docs", application="index_docs")
BODY = creation("orders", DEFINITION, MAPPING)
CLUSTER = Cluster(name="c", type="t")
DAY_US = 86_400_000_000


class Killed(BaseException):
    """The process ends here, as by kill -9: nothing that it was going to do afterwards is done."""


class Server(MemoryAdmin):
    """Counts what lasts, and lets the process be killed after any of it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.dies_after: int | None = None
        self.on_note: Callable[[str], None] = lambda _: None

    def _step(self) -> None:
        if self.dies_after is not None and self.steps >= self.dies_after:
            raise Killed
        self.steps += 1

    def create(self, name: str, body: Mapping[str, Any]) -> IndexInfo:
        self._step()
        return super().create(name, body)

    def bulk(self, name: str, lines: bytes) -> BulkAnswer:
        self._step()
        return super().bulk(name, lines)

    def refresh(self, name: str) -> None:
        self._step()
        super().refresh(name)

    def put_settings(self, name: str, settings: Mapping[str, Any]) -> None:
        self._step()
        super().put_settings(name, settings)

    def write_note(
        self, name: str, note_id: str, source: Mapping[str, Any], last: IndexNote | None
    ) -> IndexNote | None:
        self._step()
        self.on_note(note_id)
        return super().write_note(name, note_id, source, last)


class Harness:
    """A topic with its live application over memory doubles."""

    def __init__(self, name: str = "docs") -> None:
        self.name = name
        self.definition = one_topic(name, application="index_docs")
        self.dead = topics.dead(name, "index_docs")
        self.log, self.registry, self.server = MemoryLog(), MemoryRegistry(), Server()
        self.clock = Sleeping(self)
        self.topic = DocumentTopic(self.name, self.log.admin(), self.log.writer("w"), self.registry)
        first_index(self.server, self.server, IndexName("orders", 1), BODY)
        self.runs = 0
        self.live = True
        self.told: list[RebuildProgress] = []
        self.waits: list[str] = []
        self.range_done: Callable[[], None] = lambda: None

    def work(self, name: str, progress: Mapping[str, IndexProgress], part: Slice) -> TaskOutcome:
        feed = feed_of(CLUSTER, self.definition, part.topic, progress[part.topic])
        delivery = Delivery(
            lambda lines: self.server.bulk(name, lines), ManualClock(), index=name, bulk_bytes=2000, patience_s=5
        )
        task = IndexTask(states={part.topic: States(feed, self.registry)}, delivery=delivery, window_bytes=2000)
        found = self.log.reader().read(part.topic, part.partition, part.start, part.end)
        return task.run(raw_of(record) for record in found)

    @contextlib.contextmanager
    def letters(self, group: str) -> Iterator[DeadLetters]:
        yield DeadLetters(
            application="index_docs",
            limits={self.name: DeadLetterLimit(0.5, 1000)},
            writer=self.log.writer(group),
            reader=self.log.reader(),
            clock=self.clock,
        )

    def follow(self) -> None:
        """One batch of the live application: every fed generation gets what it has not."""
        self.log.admin().ensure(topics.document_spec(self.dead, 1))
        for number in read_fed(self.server, "orders"):
            info = self.server.describe(f"orders-v{number}")
            if info is None:
                continue
            keeper = ProgressKeeper(self.server, info, self.name, "application", self.clock)
            found = self.log.admin().describe(self.name)
            assert found is not None
            ids = {self.name: found.topic_id}
            progress = {self.name: keeper.claim(partial(resumed, generation=1, topic_id=found.topic_id))}
            with self.letters(dead_group("index_docs")) as letters:
                settlement = Settlement(
                    info=info,
                    index=self.server,
                    keepers={self.name: keeper},
                    progress=progress,
                    letters=letters,
                    clock=self.clock,
                )
                for p, end in self.log.reader().end_offsets(self.name).items():
                    start = progress[self.name].acked.get(p, 0)
                    outcome = self.work(info.name, progress, Slice(self.name, p, start, end))
                    settlement.settle(outcome, {(self.name, p): end}, ids)
                settlement.freshen()
                self.server.refresh(info.name)

    def plan(self, *, new: bool = False, body: Mapping[str, Any] = BODY) -> RebuildPlan:
        reader = self.log.reader()
        return make_plan(
            self.server,
            self.server,
            "orders",
            "index_docs",
            body,
            begins={self.name: reader.begin_offsets(self.name)},
            ends={self.name: reader.end_offsets(self.name)},
            first=1,
            now_us=self.clock.now_us(),
            longest_us=7 * DAY_US,
            new=new,
        )

    def rebuild(self, **how: Any) -> RebuiltGeneration:
        self.runs += 1
        self.log.admin().ensure(topics.document_spec(self.dead, 1))
        context = RebuildContext(
            index=self.server,
            admin=self.server,
            reader=self.log.reader(),
            topics=self.log.admin(),
            clock=self.clock,
            letters=lambda info: self.letters(dead_group("index_docs", info)),
            feed=lambda of: feed_of(CLUSTER, self.definition, of.topic, of),
            pool=lambda info, progress: Here(self, info.name, progress),
        )
        tell = ProgressReporter(self.told.append, self.waits.append)
        return rebuild(self.plan(**how), self.definition, context, f"rebuild {self.runs}", tell, within_s=5.0)

    def documents(self, name: str) -> dict[str, tuple[int, Any]]:
        return {
            doc_id: (found.version, found.source.get("order"))
            for doc_id, found in self.server.visible(name).items()
            if not found.deleted
        }


class Sleeping(ManualClock):
    """While somebody waits, the live application goes on."""

    def __init__(self, world: Harness) -> None:
        super().__init__(1_000_000)
        self._world = world

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self._world.live:
            self._world.follow()


class Here:
    """`RangePool` in this process."""

    slots, together = 2, 1

    def __init__(self, world: Harness, name: str, progress: Mapping[str, IndexProgress]) -> None:
        self._world, self._name, self._progress = world, name, dict(progress)
        self._waiting: list[tuple[int, Slice]] = []

    def submit(self, *tasks: NumberedRange) -> None:
        self._waiting += tasks

    def finished(self) -> list[tuple[int, FillAnswer]]:
        parts, self._waiting = self._waiting, []
        found: list[tuple[int, FillAnswer]] = [
            (number, self._world.work(self._name, self._progress, part)) for number, part in reversed(parts)
        ]
        self._world.range_done()
        return found

    def close(self) -> None:
        self._waiting.clear()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.setattr("include.index.generations.rebuild.run._RANGE", 3)
    monkeypatch.setattr("include.index.generations.rebuild.run._NEAR", 2)
    return filled()


def filled() -> Harness:
    world = Harness()
    for n in range(12):
        world.topic.put(n, note=str(n))
    for n in range(0, 12, 3):
        world.topic.put(n, note="2")
    world.topic.delete(4)
    world.follow()
    return world


def stopped(world: Harness) -> None:
    """A rebuild that ends when its first ranges are done."""

    def stop() -> None:
        raise Terminal("stopped")

    world.range_done = stop
    with pytest.raises(Terminal, match="stopped"):
        world.rebuild()
    world.range_done = lambda: None


def test_a_new_generation_gets_all_documents_and_is_followed_while_the_old_one_serves(world: Harness) -> None:
    done = world.rebuild()
    assert (done.info.name, done.plan.serving) == ("orders-v2", "orders-v1")
    assert len(world.documents("orders-v2")) == 11
    assert world.documents("orders-v2") == world.documents("orders-v1")
    assert read_fed(world.server, "orders") == (1, 2)
    now = serving_or_none(world.server, "orders")
    assert now is not None
    assert now.name == "orders-v1"
    assert done.counts["read"] == 17
    assert done.counts["read"] == sum(count for name, count in done.counts.items() if name != "read")
    assert world.told[-1].done == world.told[-1].total == sum(world.log.reader().end_offsets("docs").values())
    assert "followed by index_docs" in done.lines()[0]
    assert done.to_json()["generation"] == 2


def test_writes_go_to_both_generations_from_then_on(world: Harness) -> None:
    world.rebuild()
    world.topic.put(100)
    world.topic.delete(1)
    world.follow()
    assert "100" in world.documents("orders-v2")
    assert world.documents("orders-v2") == world.documents("orders-v1")


def test_the_index_is_filled_without_refreshes_and_gets_its_own_settings_back(world: Harness) -> None:
    seen: list[str] = []
    world.range_done = lambda: seen.append(world.server.settings("orders-v2")["refresh_interval"])
    world.rebuild()
    assert set(seen) == {"-1"}
    assert world.server.settings("orders-v2")["refresh_interval"] == BODY["settings"]["refresh_interval"]
    assert not world.server.describe("orders-v2").aliases  # type: ignore[union-attr]


def test_what_is_written_while_it_fills_is_in_it_too(world: Harness) -> None:
    extra = iter(range(200, 203))

    def write() -> None:
        for number in extra:
            world.topic.put(number)
            break

    world.range_done = write
    world.rebuild()
    assert {"200", "201", "202"} <= set(world.documents("orders-v2"))


def test_a_rebuild_killed_after_any_step_goes_on_and_ends_the_same() -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("include.index.generations.rebuild.run._RANGE", 3)
        patched.setattr("include.index.generations.rebuild.run._NEAR", 2)
        whole = filled()
        before = whole.server.steps
        whole.live = False
        whole.rebuild()
        lasting = whole.server.steps - before
        assert lasting > 15
        for after in range(lasting):
            world = filled()
            world.live = False
            world.server.dies_after = world.server.steps + after
            with pytest.raises(Killed):
                world.rebuild()
            world.server.dies_after = None
            world.live = True
            done = world.rebuild()
            assert done.info.name == "orders-v2", after
            assert world.documents("orders-v2") == world.documents("orders-v1"), after
            assert world.server.settings("orders-v2")["refresh_interval"] == "500ms", after
            assert done.counts["read"] == 17, after
            note, _ = read_rebuild(world.server, "orders")
            assert note is not None
            assert note.stage == "following", after


def test_a_rebuild_that_fails_gives_the_index_its_own_settings_back(world: Harness) -> None:
    def lose() -> None:
        raise Terminal("index cannot be written")

    world.range_done = lose
    with pytest.raises(Terminal, match="cannot be written"):
        world.rebuild()
    assert world.server.settings("orders-v2")["refresh_interval"] == "500ms"
    assert read_fed(world.server, "orders") == (1,)


def test_a_rebuild_whose_task_is_stopped_gives_the_index_its_own_settings_back(world: Harness) -> None:
    world.range_done = lambda: os.kill(os.getpid(), signal.SIGTERM)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, ending_on_sigterm():
        world.rebuild()
    assert ended.value.code == 143
    assert world.server.settings("orders-v2")["refresh_interval"] == "500ms"
    assert signal.getsignal(signal.SIGTERM) == before
    world.range_done = lambda: None
    assert world.rebuild().info.name == "orders-v2"


def test_a_later_rebuild_fences_an_earlier_one_that_then_touches_nothing_more(world: Harness) -> None:
    def other() -> None:
        world.range_done = lambda: None
        info = world.server.describe("orders-v2")
        assert info is not None
        ProgressKeeper(world.server, info, "docs", "another rebuild", world.clock).claim()

    world.range_done = other
    with pytest.raises(Fenced):
        world.rebuild()
    assert world.server.settings("orders-v2")["refresh_interval"] == "-1"
    assert read_fed(world.server, "orders") == (1,)


def test_a_generation_that_is_followed_is_never_written_by_a_rebuild_again(world: Harness) -> None:
    world.rebuild()
    world.topic.put(300)
    before = world.server.requests
    plan = world.plan()
    assert (str(plan.name), plan.begun, plan.followed) == ("orders-v2", True, True)
    assert len(plan.lines()) == 2
    world.live = False
    with pytest.raises(Transient, match=r"nobody follows.*docs"):
        world.rebuild()
    assert world.server.requests == before
    world.live = True
    assert world.rebuild().info.name == "orders-v2"


def test_after_a_promotion_and_a_rollback_the_next_rebuild_makes_another_generation(world: Harness) -> None:
    world.rebuild()
    for number in (2, 1):
        found = standing(
            world.server,
            world.server,
            IndexName("orders", number),
            DEFINITION,
            ends=world.log.reader().end_offsets,
            clock=world.clock,
            within_s=1.0,
        )
        assert found.refusals == ()
        promote(world.server, world.server, found)
    assert str(world.plan().name) == "orders-v3"
    assert world.rebuild().info.name == "orders-v3"
    assert read_fed(world.server, "orders") == (1, 2, 3)


def test_a_lost_index_is_rebuilt_from_the_topic_and_fed_no_more_under_its_old_name(world: Harness) -> None:
    world.server.delete("orders-v1")
    world.topic.put(400)
    plan = world.plan()
    assert (str(plan.name), plan.serving) == ("orders-v2", None)
    assert "readers have no index" in plan.lines()[0]
    world.rebuild()
    assert read_fed(world.server, "orders") == (2,)
    assert len(world.documents("orders-v2")) == 12


def test_a_lost_index_is_not_rebuilt_from_a_topic_that_grew_and_kept_what_was_deleted(world: Harness) -> None:
    for order_id in range(100, 120):
        world.topic.put(order_id)
    world.log.grow("docs", 3)
    for order_id in range(100, 120):
        world.topic.delete(order_id)
    with pytest.raises(Terminal, match="has grown") as refused:
        world.rebuild()
    assert (refused.value.details["topic"], refused.value.details["partitions"], refused.value.details["before"]) == (
        "docs",
        3,
        2,
    )


def test_another_declaration_is_not_filled_into_an_index_of_the_former_one(world: Harness) -> None:
    stopped(world)
    wider = {**BODY, "settings": {**BODY["settings"], "number_of_shards": 2}}
    with pytest.raises(Terminal, match=r"another declaration.*drop orders --generation 2"):
        world.plan(body=wider)
    assert str(world.plan(body=wider, new=True).name) == "orders-v3"
    world.server.delete("orders-v2")
    assert str(world.plan(body=wider).name) == "orders-v3"
    assert str(world.plan().name) == "orders-v2"


def test_a_whole_generation_of_a_former_declaration_stays_and_the_next_is_made(world: Harness) -> None:
    world.rebuild()
    wider = {**BODY, "settings": {**BODY["settings"], "number_of_shards": 2}}
    assert str(world.plan(body=wider).name) == "orders-v3"


def test_a_rebuild_is_not_gone_on_with_after_deletions_may_have_left_the_topic(world: Harness) -> None:
    stopped(world)
    world.clock.advance(6 * 86_400)
    assert world.plan().begun
    world.clock.advance(2 * 86_400)
    with pytest.raises(Terminal, match="longer ago than topics keep deletions"):
        world.plan()


def test_documents_that_the_new_mapping_refuses_are_set_aside_once_with_their_bytes(world: Harness) -> None:
    world.topic.put(500, note="not a number")
    world.follow()
    letters = world.log.reader().end_offsets(world.dead)[0]
    done = world.rebuild()
    assert done.counts["dead"] == 1
    written = world.log.reader().end_offsets(world.dead)[0]
    assert written > letters
    info = world.server.describe("orders-v2")
    assert info is not None
    assert "dead letters" in done.lines()[1]
    world.follow()
    world.rebuild()
    assert world.log.reader().end_offsets(world.dead)[0] == written


def test_a_topic_that_was_made_anew_since_is_refused(world: Harness) -> None:
    stopped(world)
    world.log.admin().delete("docs")
    world.topic = DocumentTopic("docs", world.log.admin(), world.log.writer("w"), world.registry)
    world.topic.put(1)
    with pytest.raises(Terminal, match="made anew"):
        world.rebuild()


def test_a_new_generation_inherits_what_is_known_of_the_topic(world: Harness) -> None:
    old = world.server.describe("orders-v1")
    assert old is not None
    keeper = ProgressKeeper(world.server, old, "docs", "application", world.clock)
    known = keeper.claim()
    keeper.save(IndexProgress(**{**vars(known), "floors": {"shop.orders": 3}, "control_acked": {0: 9}}))
    world.rebuild()
    new = world.server.describe("orders-v2")
    assert new is not None
    found = read_progress(world.server, new, "docs")
    assert found is not None
    assert (found.floors, found.control_acked) == ({"shop.orders": 3}, {0: 9})


def test_rows_below_a_tables_floor_are_not_brought_back() -> None:
    name = topics.change("shop", "shop", "orders")
    world = Harness(name)
    for n in range(6):
        world.topic.put(n)
    control = topics.control("shop")
    world.log.admin().ensure(topics.document_spec(control, 1))
    writer = world.log.writer("capture")
    writer.begin()
    said = ControlRecord("truncate", "shop", "orders", floor=4)
    writer.append(control, said.key(), said.value(), partition=0)
    writer.commit()
    world.server.delete("orders-v1")
    assert world.rebuild().counts["stale"] == 3
    assert sorted(world.documents("orders-v2")) == ["3", "4", "5"]


def test_a_plan_says_its_steps_and_changes_nothing(world: Harness) -> None:
    before = world.server.steps
    plan = world.plan()
    assert [line[:2] for line in plan.lines()[1:]] == [f"{n}." for n in range(1, 8)]
    assert plan.to_json() == {
        "index": "orders-v2",
        "generation": 2,
        "serving": "orders-v1",
        "resumes": False,
        "followed": False,
        "offsets": sum(world.log.reader().end_offsets("docs").values()),
    }
    assert world.server.steps == before
    assert world.server.describe("orders-v2") is None


def test_feeding_begins_only_when_the_index_has_its_own_settings_and_shows_what_it_holds(world: Harness) -> None:
    seen = []

    def look(note_id: str) -> None:
        if note_id == "generations/orders":
            seen.append((world.server.settings("orders-v2"), len(world.documents("orders-v2"))))

    world.server.on_note = look
    world.rebuild()
    assert [(settings["refresh_interval"], documents) for settings, documents in seen] == [("500ms", 11)]
