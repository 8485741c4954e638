"""Archives that Secor wrote are a source of backfills: all modes, both keys, its names, its records stored twice."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path
from typing import Any

import pytest

from include.errors import SettingsError, Terminal
from include.lake.backfill.comparison import compare
from include.lake.backfill.plan import BackfillPlan
from include.lake.backfill.planning import LakeStore, make_plan
from include.lake.backfill.promotion import promote
from include.lake.backfill.request import BackfillRequest
from include.lake.backfill.selection import BackfillSelection
from include.lake.formats.port import FileIdentity
from include.lake.formats.sequence.secor import SecorName, group_digest
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.inspect.listing import Dates, list_topic
from include.lake.message import Message
from tests.support.lake.backfill_harness import CONTEXT, BackfillHarness, asked, group, kept, version

MODES = [
    SequenceFile(layout="offset", null_value="empty", compression="RECORD"),
    SequenceFile(layout="offset", null_value="empty", compression="BLOCK", codec="gzip"),
    SequenceFile(layout="message_pack", null_value="empty"),
    SequenceFile(layout="message_pack", null_value="empty", timestamp=True, compression="BLOCK", codec="snappy"),
]
# Most archives keep no timestamps to hold event times against.
FREE = {"format": "json", "time": {"field": ["made"], "unit": "ms", "behind_s": None, "ahead_s": None}}
WRONG = version(1, "at")
RIGHT = version(2, "made", from_offsets={0: 10**6, 1: 10**6}) | {"parser": FREE}


def archive(**more: Any) -> BackfillSelection:
    return asked(origin="secor", raw="old/secor", **more)


class SecorHarness(BackfillHarness):
    """Four cuts of two partitions in Kafka, and what Secor made of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, WRONG, RIGHT)
        rule = {"topics": "*", "format": {"json_lines": {"content": "payload"}}, "versions": [WRONG, RIGHT]}
        self.by_date = self.partitioned(group(rules=[rule]))
        self.make("events", 2)
        for day in range(3):
            self.events("events", 20, day)
            self.events("events", 5, day, partition=1)
            self.send("events", [b"no json"])
            self.store_all()

    def plan(self, asked: BackfillSelection, log: bool = False) -> BackfillPlan:
        prefix = "raw" if asked.origin == "raw" else asked.raw
        return make_plan(LakeStore(self.store), asked, self.group, CONTEXT, raw_prefix=prefix)

    def records(self, partition: int) -> list[Message]:
        reader = self.memory.reader()
        end = reader.end_offsets("events")[partition]
        return [
            Message(each.offset, each.key, each.value, (), each.timestamp_ms)
            for each in reader.read("events", partition, 0, end)
        ]

    def put(self, name: SecorName, form: SequenceFile, records: list[Message]) -> str:
        stream = io.BytesIO()
        writer = form.open(stream, FileIdentity("events", "", 0, 0, ()))
        writer.write(records)
        writer.close()
        self.store.put(str(name), stream.getvalue())
        return str(name)

    def secor(self, form: SequenceFile, *, hashed: bool = False, most: int = 17, twice: int = 3) -> list[str]:
        """Files of so many records by two folders in turn, each with the last records of the one before it again."""
        keys = []
        for partition in (0, 1):
            records = self.records(partition)
            for start in range(0, len(records), most):
                cut = records[max(0, start - twice) : start + most]
                for folder in (0, 1):
                    names = (f"dt=2024-05-0{folder + 1}",)
                    first, held = cut[0].offset, [each for each in cut if each.offset % 2 == folder]
                    name = SecorName("old/secor", "events", names, 1, (partition,) * 2, first, "", "", hashed)
                    keys.append(self.put(name, form, held))
            # It went on after the lake's last cut: so nothing is missing of that.
            later = Message(10**6, b"k", b"{}")
            name = SecorName("old/secor", "events", ("dt=later",), 1, (partition,) * 2, later.offset, "", "", hashed)
            self.put(name, form, [later])
        return keys


EVER = Dates(dt.date(2000, 1, 1), dt.date(2100, 1, 1))


@pytest.fixture
def world(tmp_path: Path) -> SecorHarness:
    return SecorHarness(tmp_path)


def test_an_archive_of_any_mode_gives_the_bytes_that_the_raw_copy_gives(world: SecorHarness) -> None:
    by_raw = world.backfilled(asked())
    for number, form in enumerate(MODES):
        keys = world.secor(form, hashed=bool(number % 2))
        world.store.put("old/secor/events/dt=2024-05-01/_SUCCESS", b"")
        run = world.backfilled(archive())
        assert kept(world.objects(run.generations[1])) == kept(world.objects(by_raw.generations[1]))
        found = compare(world.store, run)
        assert (found.whole, found.clean) == (True, True)
        assert sorted({source.key for source in run.plan.sources}) == sorted(keys)
        assert run.plan.lines()[0].endswith("from Secor's archive below old/secor")
        for info in list(world.store.list("")):
            if "old/secor/" in info.key:
                world.store.delete(info.key)


def test_what_kafka_had_no_more_when_the_lake_began_comes_of_the_archive(world: SecorHarness) -> None:
    world.secor(MODES[2])
    read = lines(world, "by_date")
    for partition in (0, 1):
        world.memory.truncate("events", partition, world.records(partition)[8].offset)
    late = world.partitioned(world.group.model_copy(update={"prefix": "late"}))
    world.store_all(late)
    assert len(lines(world, "late")) < len(read)
    run = world.backfilled(archive())
    found = compare(world.store, run)
    assert "read" in {each.kind for each in found.differences} <= {"read", "refused"}
    assert not [gap for commit in found.commits.values() for gap in commit.gaps]
    assert promote(world.store, run, accept=True).anew
    assert lines(world, "late") == read


def lines(world: SecorHarness, prefix: str) -> list[bytes]:
    """What readers read."""
    stored = [world.store.get(each.key) for each in list_topic(world.store, prefix, "events", EVER)]
    return sorted(line for each in stored if each for line in each.body.splitlines())


def test_what_an_archive_does_not_reach_is_a_gap_and_nothing_is_promoted_without_a_word(world: SecorHarness) -> None:
    last = world.records(0)[-1].offset
    half = [each for each in world.records(0) if each.offset < last // 2]
    world.put(SecorName("old/secor", "events", ("offset=0",), 1, (0, 0), 0), MODES[0], half)
    run = world.backfilled(archive())
    commit = next(each for cut, each in compare(world.store, run).commits.items() if cut.partition == 0 and each.gaps)
    assert commit.gaps[0].first == half[-1].offset + 1
    assert {each.kind for each in compare(world.store, run).differences} >= {"read", "lost"}
    with pytest.raises(Terminal, match="not what was expected"):
        promote(world.store, run)


def test_two_records_under_one_offset_are_refused(world: SecorHarness) -> None:
    world.secor(MODES[0])
    other = [each._replace(value=b"{}") for each in world.records(0)[:2]]
    world.put(SecorName("old/secor", "events", ("dt=x",), 2, (0, 0), 0), MODES[0], other)
    with pytest.raises(Terminal, match="two different records under one offset"):
        world.backfilled(archive())


def test_what_tells_no_partition_or_no_offsets_is_refused(world: SecorHarness) -> None:
    grouped = SecorName("old/secor", "events", ("dt=x",), 1, (0, 1), None, group_digest([0, 0]))
    key = world.put(grouped, MODES[0], world.records(0))
    with pytest.raises(Terminal, match="several Kafka partitions"):
        world.plan(archive())
    world.store.delete(key)
    with pytest.raises(Terminal, match="has nothing of this"):
        world.plan(archive())
    world.store.put("old/secor/events/dt=x/1_0_00000000000000000000.txt", b"a\nb\n")
    with pytest.raises(Terminal, match="keeps no offsets"):
        world.backfilled(archive())


def test_the_folder_of_an_archive_is_asked_for(world: SecorHarness) -> None:
    with pytest.raises(SettingsError, match="where is Secor's archive"):
        BackfillRequest(topic="events", since="2024-05-01", source="secor").asked(world.groups)
    found = BackfillRequest(topic="events", since="2024-05-01", source="secor", raw="old/secor/").asked(world.groups)
    assert (found.origin, found.raw) == ("secor", "old/secor")
    assert BackfillSelection.from_json(found.to_json()) == found
