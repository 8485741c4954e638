"""Consumer groups go on in the restored topic with the record that they would have read next."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.errors import SettingsError, Terminal
from tests.unit.lake.restore.restore_harness import RestoreHarness


@pytest.fixture
def world(tmp_path: Path) -> RestoreHarness:
    made = RestoreHarness(tmp_path)
    for _ in range(3):
        made.send(6, 0)
        made.send(4, 0, commit=False)
        made.send(5, 1)
        made.flush()
    return made


def left_over(world: RestoreHarness, topic: str, partition: int, offset: int) -> list[bytes | None]:
    return [each.value for each in world.records(topic, partition) if each.offset >= offset]


def test_a_group_reads_on_with_what_it_has_not_read(world: RestoreHarness) -> None:
    end = world.memory.reader().end_offsets("events")
    for number, at in enumerate(range(end[0] + 1)):
        world.commit(f"g{number}", {0: at, 1: min(at, end[1])})
    names = tuple(f"g{number}" for number in range(end[0] + 1))
    restored = world.restore(most=4, groups=names)
    for group in names:
        old = world.memory.reader().committed(group, "events")
        new = world.memory.reader().committed(group, "copy")
        for partition in (0, 1):
            remaining = left_over(world, "events", partition, old[partition])
            assert left_over(world, "copy", partition, new[partition]) == remaining
    hows = {each.how for each in restored.groups}
    assert hows == {"same", "next", "end"}


def test_a_group_that_has_gone_on_in_the_target_stays_where_it_is(world: RestoreHarness) -> None:
    world.commit("g", {0: 2, 1: 3})
    world.restore(groups=("g",))
    writer = world.memory.writer("consumer")
    writer.begin()
    writer.commit("g", {("copy", 0): 9})
    again = world.restore(groups=("g",))
    assert [each.how for each in again.groups] == ["kept", "kept"]
    assert world.memory.reader().committed("g", "copy") == {0: 9, 1: 3}


def test_a_partition_of_which_nothing_was_restored_begins_at_its_beginning(world: RestoreHarness) -> None:
    world.commit("g", {0: 2, 1: 3})
    restored = world.restore(groups=("g",), offsets={0: (0, 6)})
    assert [(each.how, each.new) for each in restored.groups] == [("same", 2), ("none", 0)]
    assert "nothing of the partition was restored" in "\n".join(restored.lines())


def test_a_group_that_never_read_the_topic_is_refused_before_anything_is_written(world: RestoreHarness) -> None:
    with pytest.raises(SettingsError, match="without committed offsets"):
        world.restore(groups=("typo",))
    assert world.memory.admin().describe("copy") is None


def test_offsets_of_another_life_of_the_topic_are_not_taken(world: RestoreHarness) -> None:
    source = world.source
    world.memory.admin().delete("events")
    world.make("events", 2)
    world.commit("g", {0: 0})
    with pytest.raises(Terminal, match="forgotten its groups' offsets"):
        world.restore(source=source, partitions=2, groups=("g",))
