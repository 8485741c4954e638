"""Where a record is, in each state that one can be in."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.lake.definition import LakeGroup
from include.lake.inspect.locate import LocatedRecord, find_record
from include.lake.inspect.object_reader import open_contents
from include.lake.inspect.replay import CutReplay, Fate
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.commit_protocol import PlannedEnd
from include.lake.protocol.cut import Gap, Intent
from include.lake.protocol.pointer import change_pointer
from include.lake.reading.log_ranges import PortRanges
from include.lake.writing.log_cuts import LogCuts
from tests.support.lake.stored_topic import StoredTopic, backup_group, event, parsing_group

TEXT = {"json_lines": {"content": "payload"}}


def where(world: StoredTopic, group: LakeGroup, offset: int, *, backup: str | None = None) -> LocatedRecord:
    ask = CutReplay(world.store, partial(world.logics, "g", group), backup) if backup else None
    return find_record(world.store, world.key(group), 0, offset, group.rules[0].format, ask)


def test_a_record_is_found_with_its_index_in_the_object_that_has_it(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group()
    world.append([event(n, days_ago=n % 2) for n in range(10)])
    world.store_all(group)
    found = [where(world, group, offset) for offset in range(10)]
    assert [each.state for each in found] == ["stored"] * 10
    assert [each.index for each in found] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert {each.key for each in found[::2]} == {"dates/events/dt=2026-11-21/1_0_00000000000000000000"}
    assert {each.key for each in found[1::2]} == {"dates/events/dt=2026-11-20/1_0_00000000000000000000"}
    bodies = {each.key: world.store.get(each.key) for each in found}
    held = {key: list(open_contents(body.body, key).messages) for key, body in bodies.items() if body}
    assert [held[each.key][each.index or 0].value for each in found] == [event(n, days_ago=n % 2) for n in range(10)]


def test_a_refused_record_is_found_in_quarantine_with_the_reason(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group()
    world.append([event(0), b"no json", event(2)])
    world.store_all(group)
    found = where(world, group, 1)
    assert (found.state, found.index) == ("refused", 0)
    assert found.key == "dates/events/_quarantine/1_0_00000000000000000000"
    assert found.text.startswith("it was refused: ")
    assert len(found.text) > len("it was refused: ")


def test_a_filtered_record_is_told_from_an_offset_that_has_none_by_the_backup(tmp_path: Path) -> None:
    world, group, backup = StoredTopic(tmp_path), parsing_group(), backup_group()
    world.append([event(0), event(1, type="ping"), event(2)])
    world.store_all(group)
    alone = where(world, group, 1)
    assert (alone.state, alone.key) == ("not told", "")
    world.store_all(backup)
    assert where(world, group, 1, backup="raw").state == "filtered"
    assert where(world, backup, 1).state == "stored"


def test_what_is_not_committed_yet_says_how_far_it_is(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), backup_group()
    world.append([event(n) for n in range(5)])
    assert "nothing of this topic" in where(world, group, 3).text
    world.store_all(group)
    found = where(world, group, 8)
    assert found.state == "not yet"
    assert found.text.startswith(
        "the partition is committed up to 6, which is 2 offsets before this one; `lyrebird lake"
    )
    other = find_record(world.store, world.key(group), 7, 3)
    assert (other.state, other.text.partition(";")[0]) == ("not yet", "nothing of this partition is stored")


def test_a_cut_that_is_promised_is_under_way_up_to_its_end(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), backup_group()
    world.append([event(0)])
    world.store_all(group)
    chain = ChainKey(world.key(group), 1, 0)
    world.store.put(chain.intent(2), Intent(6, "age", "p", "c", "w", ()).to_bytes())
    states = [where(world, group, offset).state for offset in (0, 2, 5, 6)]
    assert states == ["stored", "under way", "under way", "not yet"]


def test_an_offset_that_never_had_a_record_is_told_so(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group()
    # Behind each transaction stands its marker.
    world.append([event(0), event(1)])
    world.append([event(3)])
    world.store_all(group)
    found = where(world, group, 2)
    assert (found.state, found.key, found.first, found.next) == ("no record", "", 0, 5)
    assert where(world, group, 3).index == 2


def test_offsets_that_the_log_had_lost_before_are_a_gap(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), backup_group()
    world.append([event(0)])
    world.store_all(group)
    chain = ChainKey(world.key(group), 1, 0)
    commit = Chain(world.store, chain).commit(0)
    assert commit is not None
    gone = replace(commit, gaps=(Gap(0, 2, "lost"),), files=(), n_records=0)
    world.store.put(chain.commit(0), gone.to_bytes())
    found = where(world, group, 1)
    assert found.state == "gap"
    assert "offsets 0 to 1" in found.text


def test_an_object_that_is_gone_and_a_commit_that_is_gone_are_missing(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), backup_group()
    for batch in range(3):
        world.append([event(batch * 2), event(batch * 2 + 1)])
        world.store_all(group)
    chain = ChainKey(world.key(group), 1, 0)
    (file,) = Chain(world.store, chain).commit(3).files  # type: ignore[union-attr]
    world.store.delete(file.key)
    found = where(world, group, 4)
    assert (found.state, found.key) == ("missing", file.key)
    assert "lyrebird audit chain events" in found.text
    world.store.delete(chain.commit(3))
    world.store.delete(chain.intent(3))
    assert where(world, group, 4).state == "missing"
    assert [where(world, group, offset).state for offset in (1, 6)] == ["stored", "stored"]


def test_after_an_upgrade_each_offset_is_found_in_the_generation_that_readers_read(tmp_path: Path) -> None:
    world = StoredTopic(tmp_path)
    world.append([event(0), event(1)])
    world.store_all(parsing_group())
    world.append([event(2), event(3)])
    world.store_all(parsing_group(revision=2))
    group = parsing_group(revision=2)
    assert [where(world, group, offset).generation for offset in (0, 1, 3, 4)] == [1, 1, 2, 2]


def test_after_a_backfill_the_cuts_that_were_promoted_are_found_in_its_generation(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group()
    for batch in range(3):
        world.append([event(10 * batch), event(10 * batch + 1)])
        world.store_all(group)
    key = world.key(group)
    change_pointer(world.store, key, lambda now: now.reserve("me", "backfill"))
    chain = ChainKey(key, 2, 0)
    ranges = PortRanges(world.memory.reader(), world.memory.admin())
    cuts = LogCuts(ranges, chain, world.logics("g", group), tmp_path / "cuts", 10**9, 1000)
    Chain(world.store, chain).write_cut(3, PlannedEnd(6, "backfill", "", "me", exact=True), cuts)
    assert {where(world, group, offset).generation for offset in range(9)} == {1}
    change_pointer(world.store, key, lambda now: now.promote(2, {0: ((3, 6),)}, replaces=1))
    assert [where(world, group, offset).generation for offset in range(9)] == [1, 1, 1, 2, 2, 2, 1, 1, 1]
    assert where(world, group, 4).key == "dates/events/dt=2026-11-21/2_0_00000000000000000003"


def test_formats_without_offsets_have_the_index_by_the_backup_and_the_parser(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group(TEXT)
    kinds: list[bytes | None] = [
        event(0),
        event(1, days_ago=1),
        event(2, type="ping"),
        b"no json",
        event(4),
        None,
        event(6, days_ago=1),
        event(7),
    ]
    world.append(kinds)
    world.store_all(group)
    world.store_all(backup_group())
    today = "dates/events/dt=2026-11-21/1_0_00000000000000000000.jsonl"
    before = today.replace("21/", "20/")
    aside = "dates/events/_quarantine/1_0_00000000000000000000"
    expected = [
        ("stored", today, 0),
        ("stored", before, 0),
        ("filtered", "", None),
        ("refused", aside, 0),
        ("stored", today, 1),
        ("refused", aside, 1),
        ("stored", before, 1),
        ("stored", today, 2),
    ]
    found = [where(world, group, offset, backup="raw") for offset in range(8)]
    assert [(each.state, each.key, each.index) for each in found] == expected
    for each in found:
        if each.state == "stored":
            lines = world.store.get(each.key).body.splitlines()  # type: ignore[union-attr]
            assert lines[each.index or 0] == kinds[each.offset]


def test_without_a_backup_such_formats_tell_the_objects_that_may_have_it(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group(TEXT)
    world.append([event(0), event(1, days_ago=1), event(2)])
    world.store_all(group)
    found = where(world, group, 2)
    assert found.state == "not told"
    assert "dt=2026-11-21/1_0_00000000000000000000.jsonl" in found.text


def test_an_object_in_which_no_offset_is_left_out_tells_the_index_by_itself(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group(TEXT)
    world.append([event(n) for n in range(4)])
    world.store_all(group)
    assert [where(world, group, offset).index for offset in range(4)] == [0, 1, 2, 3]


def test_an_object_in_which_no_offset_is_left_out_need_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, group = StoredTopic(tmp_path), backup_group()
    world.append([event(n) for n in range(4)])
    world.store_all(group)
    monkeypatch.setattr("include.lake.inspect.locate.open_contents", lambda *_: pytest.fail("it was read"))
    assert [(found.state, found.index) for found in (where(world, group, offset) for offset in range(4))] == [
        ("stored", index) for index in range(4)
    ]


def test_a_backup_that_is_behind_tells_nothing_and_says_so(tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group(TEXT)
    world.append([event(0), event(1, days_ago=1)])
    world.store_all(backup_group())
    world.append([event(2)])
    world.store_all(group)
    found = where(world, group, 3, backup="raw")
    assert found.state == "not told"
    assert "the backup has 2 of its 3 records" in found.text


def values_of(kind: str, number: int) -> bytes:
    made = {"kept": event(number), "yesterday": event(number, days_ago=1), "filtered": event(number, type="ping")}
    return made.get(kind, b"x%d" % number)


KINDS = st.sampled_from(["kept", "yesterday", "filtered", "refused"])


@settings(max_examples=25, deadline=None)
@given(batches=st.lists(st.lists(KINDS, min_size=1, max_size=6), min_size=1, max_size=3), text=st.booleans())
def test_every_offset_is_in_one_state_and_every_stored_one_is_that_record(
    batches: list[list[str]], text: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = StoredTopic(tmp_path_factory.mktemp("lake"))
    group, backup = parsing_group(TEXT if text else None), backup_group()
    kinds: dict[bytes, str] = {}
    for number, batch in enumerate(batches):
        values = [values_of(kind, 10 * number + place) for place, kind in enumerate(batch)]
        kinds.update(zip(values, batch, strict=True))
        world.append(list(values))
        world.store_all(group)
        world.store_all(backup)
    end = world.edge()[1]
    values_there = {each.offset: each.value for each in world.memory.reader().read("events", 0, 0, end)}
    for offset in range(end):
        found = where(world, group, offset, backup="raw")
        value = values_there.get(offset)
        kind = "none" if value is None else kinds[value]
        assert found.state == {"filtered": "filtered", "refused": "refused", "none": "no record"}.get(kind, "stored")
        if found.state in ("stored", "refused"):
            body = world.store.get(found.key).body  # type: ignore[union-attr]
            messages = list(open_contents(body, found.key).messages)
            assert found.index is not None
            assert messages[found.index].value == value


def test_what_the_format_cannot_hold_is_found_in_quarantine_among_what_the_parser_refused(tmp_path: Path) -> None:
    world, group, backup = StoredTopic(tmp_path), parsing_group({"text": {}}), backup_group()
    broken = event(1).replace(b",", b",\n")
    world.append([event(0), broken, b"no json", event(3), broken])
    world.store_all(group)
    world.store_all(backup)
    found = [where(world, group, offset, backup="raw") for offset in range(5)]
    assert [(each.state, each.index) for each in found] == [
        ("stored", 0),
        ("refused", 0),
        ("refused", 1),
        ("stored", 1),
        ("refused", 2),
    ]
    # Without its quarantine object the parser and the backup tell the same of the next one.
    commit = Chain(world.store, ChainKey(world.key(group), 1, 0)).commit(0)
    assert commit is not None
    ask = CutReplay(world.store, partial(world.logics, "g", group), "raw")
    fate = ask(ChainKey(world.key(group), 1, 0), commit, 4)
    assert isinstance(fate, Fate)
    assert (fate.kind, fate.key, fate.index) == ("refused", found[4].key, 2)
    assert "line break" in fate.reason


def test_what_keeps_the_parser_from_telling_is_said(tmp_path: Path) -> None:
    world, group, backup = StoredTopic(tmp_path), parsing_group(TEXT), backup_group()
    world.append([event(0), event(1, days_ago=1), event(2)])
    world.store_all(group)
    none = find_record(world.store, world.key(group), 0, 1, None, CutReplay(world.store, dict, None))  # type: ignore[arg-type]
    assert none.state == "stored"
    alone = find_record(world.store, world.key(group), 0, 2, None, CutReplay(world.store, dict, None))  # type: ignore[arg-type]
    assert "no backup group has this topic" in alone.text
    world.store_all(backup)
    other = parsing_group({"json_lines": {"content": "payload", "compression": {"codec": "gzip"}}})
    assert "has no more" in where(world, other, 2, backup="raw").text
    world.store.delete("raw/events/offset=0/1_0_00000000000000000000")
    assert "an object of a commit is not there" in where(world, group, 2, backup="raw").text
