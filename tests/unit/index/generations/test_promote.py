"""What speaks against a promotion, the move itself, and what is dropped afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Fenced, Terminal, Transient
from include.index.generations.active import change_fed, read_fed, serving
from include.index.generations.create import first_index
from include.index.generations.promote import PromotionState, drop_generation, promote, standing
from include.index.generations.rebuild_note import RebuildNote, declared_hash, read_rebuild, write_rebuild
from include.index.mapping.declared import creation
from include.index.name import IndexName
from include.index.progress.document import IndexProgress, ProgressKeeper, read_progress
from include.index.server.memory_admin import MemoryAdmin
from include.index.server.port import IndexNote
from tests.support.documents.topic import MAPPING, one_topic

DEFINITION = one_topic("t", application="index_orders")
BODY = creation("orders", DEFINITION, MAPPING)
ONE, TWO, THREE = (IndexName("orders", n) for n in (1, 2, 3))


class Harness:
    """Generation 1 serves, 2 is filled to `searchable` of an end of 10, and fed."""

    def __init__(self, server: MemoryAdmin | None = None) -> None:
        self.server = server or MemoryAdmin()
        self.clock = ManualClock()
        first_index(self.server, self.server, ONE, BODY)
        self.fill(ONE)
        self.add(TWO)

    def add(self, name: IndexName, searchable: int = 10) -> None:
        self.server.create(str(name), {**BODY, "aliases": {}})
        self.fill(name, searchable)
        change_fed(self.server, "orders", add=[name.generation])

    def fill(self, name: IndexName, searchable: int = 10) -> None:
        info = self.server.describe(str(name))
        assert info is not None
        keeper = ProgressKeeper(self.server, info, "t", f"filler of {name}", self.clock)
        keeper.claim()
        keeper.save(IndexProgress("t", acked={0: 10}, searchable={0: searchable}))

    def standing(self, name: IndexName = TWO) -> PromotionState:
        return standing(
            self.server, self.server, name, DEFINITION, ends=lambda _: {0: 10}, clock=self.clock, within_s=5.0
        )

    def serves(self) -> str:
        return serving(self.server, "orders").name


def test_a_generation_that_is_fed_and_caught_up_is_promoted_and_back_by_the_same_call() -> None:
    world = Harness()
    assert world.standing().refusals == ()
    promote(world.server, world.server, world.standing())
    assert world.serves() == "orders-v2"
    assert read_fed(world.server, "orders") == (1, 2)
    back = world.standing(ONE)
    assert back.refusals == ()
    promote(world.server, world.server, back)
    assert world.serves() == "orders-v1"


def test_promoting_what_serves_already_changes_nothing() -> None:
    world = Harness()
    promote(world.server, world.server, world.standing())
    found = world.standing()
    assert found.serves
    promote(world.server, world.server, found)
    assert world.serves() == "orders-v2"


def test_of_two_promotions_at_once_the_second_is_refused() -> None:
    world = Harness()
    world.add(THREE)
    one, other = world.standing(TWO), world.standing(THREE)
    promote(world.server, world.server, one)
    with pytest.raises(Terminal, match="alias leads elsewhere"):
        promote(world.server, world.server, other)
    assert world.serves() == "orders-v2"


def test_what_is_behind_is_waited_for_and_then_told_with_the_next_step() -> None:
    world = Harness()
    world.add(THREE, searchable=4)
    assert world.standing(THREE).refusals == ("orders-v3 is 6 offsets of t behind: see that index_orders runs",)
    assert world.clock.monotonic_s() >= 5.0


def test_what_catches_up_while_it_is_waited_for_is_no_refusal() -> None:
    world = Harness()

    class Catching(ManualClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            world.fill(THREE)

    world.add(THREE, searchable=4)
    world.clock = Catching()
    assert world.standing(THREE).refusals == ()


def test_a_generation_that_is_not_fed_not_refreshed_or_ignores_values_is_refused() -> None:
    class Ignoring(MemoryAdmin):
        def count(self, name: str, query: Mapping[str, Any] | None = None) -> int:
            return 1 if query == {"exists": {"field": "_ignored"}} else super().count(name, query)

    world = Harness(Ignoring())
    change_fed(world.server, "orders", remove=[2])
    world.server.put_settings("orders-v2", {"refresh_interval": "-1"})
    assert [text.split(":")[0] for text in world.standing().refusals] == [
        "orders-v2 is not fed",
        "orders-v2 is not refreshed",
        "orders-v2 ignores a value in 1 documents",
    ]


def test_a_generation_that_is_not_there_is_named() -> None:
    with pytest.raises(Terminal, match=r"no such generation.*orders-v3"):
        Harness().standing(THREE)
    with pytest.raises(Terminal, match=r"no such generation.*orders-v3"):
        drop_generation(Harness().server, Harness().server, THREE)


def test_with_nothing_serving_a_generation_is_promoted_from_nowhere() -> None:
    world = Harness()
    world.server.delete("orders-v1")
    found = world.standing()
    assert found.serving is None
    promote(world.server, world.server, found)
    assert world.serves() == "orders-v2"


class Dying(MemoryAdmin):
    """Ends at its nth step of those that last."""

    left = 1_000_000

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Transient("killed", system="test")

    def write_note(
        self, name: str, note_id: str, source: Mapping[str, Any], last: IndexNote | None
    ) -> IndexNote | None:
        self._step()
        return super().write_note(name, note_id, source, last)

    def move_alias(self, alias: str, to: str, *, source: str | None) -> None:
        self._step()
        super().move_alias(alias, to, source=source)

    def retire(self, alias: str, name: str, *, serving: str | None) -> None:
        self._step()
        super().retire(alias, name, serving=serving)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_promotion_that_dies_after_any_step_is_finished_by_the_next(steps: int) -> None:
    server = Dying()
    world = Harness(server)
    write_rebuild(server, RebuildNote("orders", 2, declared_hash(BODY), "following", 1), None)
    server.left = steps
    if steps < 2:
        with pytest.raises(Transient):
            promote(server, server, world.standing())
    server.left = 100
    promote(server, server, world.standing())
    note, _ = read_rebuild(server, "orders")
    assert world.serves() == "orders-v2"
    assert note is not None
    assert note.stage == "promoted"


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_drop_that_dies_after_any_step_is_finished_by_the_next(steps: int) -> None:
    server = Dying()
    world = Harness(server)
    promote(server, server, world.standing())
    server.left = steps
    if steps < 2:
        with pytest.raises(Transient):
            drop_generation(server, server, ONE)
        server.left = 100
        drop_generation(server, server, ONE)
    else:
        drop_generation(server, server, ONE)
    assert server.describe("orders-v1") is None
    assert read_fed(server, "orders") == (2,)


def test_a_dropped_generation_leaves_no_progress_document_and_nobody_who_held_it_writes_one() -> None:
    world = Harness()
    info = world.server.describe("orders-v2")
    assert info is not None
    held = ProgressKeeper(world.server, info, "t", "application", world.clock)
    progress = held.claim()
    drop_generation(world.server, world.server, TWO)
    assert read_progress(world.server, info, "t") is None
    with pytest.raises(Fenced):
        held.save(progress)
    assert read_progress(world.server, info, "t") is None
    assert read_progress(world.server, serving(world.server, "orders"), "t") is not None


def test_while_nothing_serves_a_generation_can_be_dropped() -> None:
    world = Harness()
    world.server.delete("orders-v1")
    drop_generation(world.server, world.server, TWO)
    assert world.server.describe("orders-v2") is None
    assert read_fed(world.server, "orders") == (1,)
    drop_generation(world.server, world.server, ONE)
    assert read_fed(world.server, "orders") == ()
    with pytest.raises(Terminal, match="no such generation"):
        drop_generation(world.server, world.server, ONE)


def test_the_generation_that_serves_is_not_dropped() -> None:
    world = Harness()
    with pytest.raises(Terminal, match="serves readers"):
        drop_generation(world.server, world.server, ONE)
    assert world.serves() == "orders-v1"
    assert read_fed(world.server, "orders") == (1, 2)


def test_a_generation_that_a_promotion_chooses_while_it_is_dropped_stays_and_is_fed_again() -> None:
    class Racing(MemoryAdmin):
        def retire(self, alias: str, name: str, *, serving: str | None) -> None:
            self.move_alias(alias, name, source=serving)
            super().retire(alias, name, serving=serving)

    world = Harness(Racing())
    with pytest.raises(Terminal, match="alias leads elsewhere"):
        drop_generation(world.server, world.server, TWO)
    assert world.serves() == "orders-v2"
    assert read_fed(world.server, "orders") == (1, 2)


def test_an_index_that_was_deleted_behind_everyones_back_is_fed_no_more_when_it_is_dropped() -> None:
    world = Harness()
    world.server.delete("orders-v2")
    drop_generation(world.server, world.server, TWO)
    assert read_fed(world.server, "orders") == (1,)


def test_a_note_of_the_rebuild_is_written_over_its_last_version_only() -> None:
    server = MemoryAdmin()
    assert read_rebuild(server, "orders") == (None, None)
    note = RebuildNote("orders", 2, declared_hash(BODY), "filling", 7)
    write_rebuild(server, note, None)
    with pytest.raises(Terminal, match="another rebuild"):
        write_rebuild(server, note, None)
    found, last = read_rebuild(server, "orders")
    assert found == note
    write_rebuild(server, note.at("following"), last)
    assert read_rebuild(server, "orders")[0] == note.at("following")


def test_a_note_of_another_form_is_told_with_the_next_step() -> None:
    server = MemoryAdmin()
    write_rebuild(server, RebuildNote("orders", 2, "h", "filling", 7), None)
    last = read_rebuild(server, "orders")[1]
    server.write_note("lyrebird-progress", "rebuild/orders", {"stage": "resting"}, last)
    with pytest.raises(Terminal, match="Delete that document"):
        read_rebuild(server, "orders")


def test_two_declarations_are_told_apart_and_the_order_of_names_is_none() -> None:
    hashes = [
        declared_hash(creation("orders", each, MAPPING))
        for each in (DEFINITION, DEFINITION.model_copy(update={"shards": 2}))
    ]
    assert len(set(hashes)) == 2
    turned = {name: BODY[name] for name in reversed(list(BODY))}
    assert all(one == other for one, other in itertools.pairwise([declared_hash(BODY), declared_hash(turned)]))
