"""Cuts read from a log in memory and carried to a bucket in memory: all is there once, whatever the log lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from include.errors import Terminal
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.message import Message
from include.lake.parsing.port import Batch
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.commit_protocol import PlannedEnd
from include.lake.protocol.cut import Commit, Gap
from include.lake.protocol.steps import ReadRange
from include.lake.reading.log_ranges import MessageBatch, PortRanges
from include.lake.writing.cut_files import whole
from include.lake.writing.log_cuts import CutLogic, LogCuts
from include.log.memory import MemoryLog
from include.log.ports import TopicSpec
from include.store.memory import MemoryStore

VERBATIM = SequenceFile(layout="verbatim")
FIRST, LATER = (CutLogic(name, lambda _first: whole(("offset=0",)), VERBATIM, VERBATIM) for name in ("first", "later"))


class Two:
    """The first logic, and from offset 50 on the later one."""

    def holding(self, partition: int, first: int, timestamp_ms: int) -> CutLogic:
        assert partition == 0
        return LATER if first >= 50 else FIRST

    def border(self, partition: int, first: int) -> int | None:
        assert partition == 0
        return 50 if first < 50 else None

    def of(self, config: str) -> CutLogic:
        return {"first": FIRST, "later": LATER}[config]


class Place:
    """A topic of 100 values, none of them deleted yet, and the bucket."""

    def __init__(self, folder: Path, max_bytes: int = 1 << 20, max_folders: int = 1000) -> None:
        self.log = MemoryLog()
        self.log.admin().ensure(TopicSpec("events", 1))
        self.write(100)
        info = self.log.admin().describe("events")
        assert info is not None
        self.ranges = PortRanges(self.log.reader(), self.log.admin())
        self.key = ChainKey(TopicKey("lake/raw", "events", info.named_id), 0, 0)
        self.store = MemoryStore()
        self.cuts = LogCuts(self.ranges, self.key, Two(), folder, max_bytes, max_folders)

    def write(self, count: int) -> None:
        writer = self.log.writer("w")
        writer.begin()
        for number in range(count):
            writer.append("events", b"k", b"%d" % number)
        writer.commit()

    def advance(self, until: int) -> list[Commit]:
        done: list[Commit] = []
        Chain(self.store, self.key).advance(PlannedEnd(until, "flush", "", "w"), self.cuts, done.append)
        return done

    def stored(self) -> list[Message]:
        keys = [info.key for info in self.store.list("lake/raw/events/")]
        return [message for key in keys for message in read(self.store, key)]


def read(store: MemoryStore, key: str) -> Iterator[Message]:
    import io

    found = store.get(key)
    assert found is not None
    return VERBATIM.read(io.BytesIO(found.body))


def test_cuts_end_at_their_size_at_borders_of_configurations_and_at_the_plan(tmp_path: Path) -> None:
    place = Place(tmp_path / "cuts")
    done = place.advance(80)
    assert [(each.first, each.next, each.config) for each in done] == [(0, 50, "first"), (50, 80, "later")]
    assert [each.offset for each in place.stored()] == list(range(80))
    assert [each.next for each in place.advance(80)] == []
    assert [each.next for each in place.advance(100)] == [100]


def test_a_cut_ends_when_its_files_are_big_enough_and_the_next_goes_on_there(tmp_path: Path) -> None:
    place = Place(tmp_path / "cuts", max_bytes=1)
    place.write(2500)
    done = place.advance(2601)
    # The log's client gives a thousand at a time; the first cut ends at the border.
    assert [each.next for each in done] == [50, 1051, 2051, 2601]
    assert sum(file.records for each in done for file in each.files) == 2600
    assert len({message.offset for message in place.stored()}) == 2600


def test_a_cut_ends_before_the_message_that_opens_a_folder_too_many_but_not_one_that_was_promised(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path / "cuts", max_folders=3)
    tens = CutLogic("tens", lambda _first: by_ten, VERBATIM, VERBATIM)

    class One:
        def holding(self, _partition: int, _first: int, _timestamp_ms: int) -> CutLogic:
            return tens

        def border(self, _partition: int, _first: int) -> int | None:
            return None

        def of(self, _config: str) -> CutLogic:
            return tens

    place.cuts = LogCuts(place.ranges, place.key, One(), tmp_path / "cuts", 1 << 20, 3)
    done = place.advance(100)
    assert [(each.first, each.next) for each in done] == [(0, 30), (30, 60), (60, 90), (90, 100)]
    assert [len(each.files) for each in done] == [3, 3, 3, 1]
    assert sorted(message.offset for message in place.stored()) == list(range(100))
    place.cuts = LogCuts(place.ranges, place.key, One(), tmp_path / "cuts", 1 << 20, 1)
    again = place.cuts.read(ReadRange(0, 30, exact=False, config="tens"))
    assert (again.end, len(again.files)) == (30, 3)


def by_ten(messages: Sequence[Message]) -> Batch:
    kept: dict[tuple[str, ...], list[Message]] = {}
    for each in messages:
        kept.setdefault((f"ten={each.offset // 10}",), []).append(each)
    return Batch(kept=kept)


def test_what_retention_took_before_the_first_cut_is_no_loss_and_later_it_is(tmp_path: Path) -> None:
    place = Place(tmp_path / "cuts")
    place.log.truncate("events", 0, 10)
    assert [each.gaps for each in place.advance(40)] == [(Gap(0, 10, "before"),)]
    place.log.truncate("events", 0, 70)
    done = place.advance(100)
    assert [each.gaps for each in done] == [(Gap(40, 50, "lost"),), (Gap(50, 70, "lost"),)]
    assert [each.n_records for each in done] == [0, 30]


def test_what_retention_takes_while_it_is_read_is_a_gap_of_the_cut(tmp_path: Path) -> None:
    place = Place(tmp_path / "cuts")
    place.write(3000)

    class Overtaken(PortRanges):
        """After the first batch the log begins later."""

        def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
            if start > 2000:
                yield from super().batches(topic, partition, start, end)
                return
            yield next(super().batches(topic, partition, start, end))
            place.log.truncate("events", 0, 2500)
            raise Terminal("the log does not hold this range any more")

    cuts = LogCuts(Overtaken(place.log.reader(), place.log.admin()), place.key, Two(), tmp_path / "cuts", 1 << 20, 1000)
    cut = cuts.read(ReadRange(100, 3000, True))
    assert cut.gaps == (Gap(1101, 2500, "lost"),)
    # Offsets 101 to 1100, one batch, and 2500 to 2999.
    assert sum(file.records for file in cut.files) == 1000 + 500


def test_a_log_that_ends_before_what_was_promised_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path / "cuts")
    with pytest.raises(Terminal, match="truncated"):
        place.cuts.read(ReadRange(0, 500, True, "first", ()))


def test_a_promised_cut_takes_its_own_configuration_and_end(tmp_path: Path) -> None:
    place = Place(tmp_path / "cuts", max_bytes=1)
    cut = place.cuts.read(ReadRange(0, 60, True, "later", ("lake/raw/events/offset=0/0_0_00000000000000000000",)))
    assert (cut.end, cut.config, [file.records for file in cut.files]) == (60, "later", [60])


def test_a_topic_made_anew_while_it_is_read_is_not_stored_as_the_old_one(tmp_path: Path) -> None:
    place = Place(tmp_path / "cuts")

    class Swapped(PortRanges):
        """Another topic of that name is there when the first batch comes."""

        def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
            place.log.admin().delete("events")
            place.log.admin().ensure(TopicSpec("events", 1))
            place.write(100)
            yield from super().batches(topic, partition, start, end)

    cuts = LogCuts(Swapped(place.log.reader(), place.log.admin()), place.key, Two(), tmp_path / "cuts", 1 << 20, 1000)
    for _ in range(2):
        with pytest.raises(Terminal, match="made anew"):
            cuts.read(ReadRange(0, 40, True))
