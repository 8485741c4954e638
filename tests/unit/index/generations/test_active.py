"""Which generations are fed, which one serves, and how the first is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from include.errors import Terminal, Transient
from include.index.generations.active import change_fed, read_fed, serving, serving_or_none
from include.index.generations.create import first_index
from include.index.mapping.declared import creation
from include.index.name import IndexName
from include.index.progress.document import NOTES
from include.index.server.memory_admin import MemoryAdmin
from include.index.server.port import IndexInfo, IndexNote
from tests.support.documents.topic import MAPPING, one_topic

DEFINITION = one_topic("t")
BODY = creation("orders", DEFINITION, MAPPING)
FIRST = IndexName("orders", 1)


def first(server: MemoryAdmin, name: IndexName = FIRST) -> tuple[IndexInfo, bool]:
    return first_index(server, server, name, BODY)


def test_the_first_index_gets_its_alias_and_is_fed() -> None:
    server = MemoryAdmin()
    assert first(server) == (serving(server, "orders"), True)
    assert read_fed(server, "orders") == (1,)
    assert first(server) == (serving(server, "orders"), False)


def test_an_alias_that_leads_to_a_later_generation_gets_no_second_index() -> None:
    server = MemoryAdmin()
    first(server)
    server.create("orders-v2", {**BODY, "aliases": {}})
    server.move_alias("orders", "orders-v2", source="orders-v1")
    info, made = first(server)
    assert (info.name, made) == ("orders-v2", False)
    assert [str(one.name) for one in server.generations("orders")] == ["orders-v1", "orders-v2"]


def test_generations_of_which_none_serves_are_left_to_a_person() -> None:
    server = MemoryAdmin()
    server.create("orders-v1", {**BODY, "aliases": {}})
    with pytest.raises(Terminal, match="lyrebird index promote orders --generation 1"):
        first(server)
    assert serving_or_none(server, "orders") is None


def test_a_crash_between_the_index_and_its_note_is_mended_by_the_next_call() -> None:
    class Dying(MemoryAdmin):
        dies = True

        def write_note(
            self, name: str, note_id: str, source: Mapping[str, Any], last: IndexNote | None
        ) -> IndexNote | None:
            if self.dies:
                raise Transient("killed")
            return super().write_note(name, note_id, source, last)

    server = Dying()
    with pytest.raises(Transient):
        first(server)
    assert serving(server, "orders").name == "orders-v1"
    server.dies = False
    assert first(server)[1] is False
    note = server.note(NOTES, "generations/orders")
    assert note is not None
    assert note.source["fed"] == [1]


def test_without_a_note_the_generation_that_serves_is_fed() -> None:
    server = MemoryAdmin()
    assert read_fed(server, "orders") == ()
    server.create("orders-v4", BODY)
    assert read_fed(server, "orders") == (4,)
    assert change_fed(server, "orders", add=[5]) == (4, 5)


def test_generations_come_and_go_and_repeating_a_change_does_nothing() -> None:
    server = MemoryAdmin()
    first(server)
    assert change_fed(server, "orders", add=[2]) == change_fed(server, "orders", add=[2]) == (1, 2)
    assert change_fed(server, "orders", add=[3], remove=[2]) == read_fed(server, "orders") == (1, 3)
    assert change_fed(server, "orders", remove=[7]) == (1, 3)


def test_the_generation_that_serves_is_fed_whatever_the_note_says() -> None:
    server = MemoryAdmin()
    first(server)
    assert change_fed(server, "orders", add=[2], remove=[1]) == read_fed(server, "orders") == (1, 2)
    server.create("orders-v2", {**BODY, "aliases": {}})
    server.move_alias("orders", "orders-v2", source="orders-v1")
    assert read_fed(server, "orders") == (2,)


def test_an_alias_that_was_lent_to_a_foreign_index_stops_no_feeding() -> None:
    server = MemoryAdmin()
    first(server)
    server.create("meals", {})
    server.move_alias("orders", "meals", source="orders-v1")
    assert read_fed(server, "orders") == (1,)


def test_changes_of_two_processes_at_once_both_count() -> None:
    class Racing(MemoryAdmin):
        other: list[int] | None = None

        def write_note(
            self, name: str, note_id: str, source: Mapping[str, Any], last: IndexNote | None
        ) -> IndexNote | None:
            if self.other is not None:
                number, self.other = self.other, None
                change_fed(self, "orders", add=number)
            return super().write_note(name, note_id, source, last)

    server = Racing()
    first(server)
    server.other = [9]
    assert change_fed(server, "orders", add=[2]) == (1, 2, 9)


def test_a_note_that_changes_for_ever_is_told() -> None:
    class Restless(MemoryAdmin):
        def write_note(
            self, name: str, note_id: str, source: Mapping[str, Any], last: IndexNote | None
        ) -> IndexNote | None:
            return None

    with pytest.raises(Transient, match="changes all the time"):
        change_fed(Restless(), "orders", add=[2])


def test_a_note_of_another_form_is_told_with_the_next_step() -> None:
    server = MemoryAdmin()
    first(server)
    server.write_note(NOTES, "generations/orders", {"fed": "x"}, server.note(NOTES, "generations/orders"))
    with pytest.raises(Terminal, match="Delete that document"):
        read_fed(server, "orders")


def test_an_alias_of_a_foreign_index_is_told() -> None:
    server = MemoryAdmin()
    server.create("meals-v1", BODY)
    with pytest.raises(Terminal, match="none of its generations"):
        serving(server, "orders")
    with pytest.raises(Terminal, match="lyrebird index create drinks"):
        serving(server, "drinks")
