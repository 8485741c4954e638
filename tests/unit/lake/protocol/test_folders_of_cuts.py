"""Records of many dates or users: a cut opens as many folders as it may, and each record is stored once still."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord
from include.lake.definition import LakeGroup
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.message import Message
from include.lake.parsing.port import Batch
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.commit_protocol import PlannedEnd
from include.lake.protocol.cut import Commit
from include.lake.writing.log_cuts import CutLogic, LogCuts
from include.log.memory import MemoryLog
from include.log.ports import TopicSpec
from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo
from tests.support.lake.harness import GROUP, LakeHarness, LeaderEpochs

VERBATIM = SequenceFile(layout="verbatim")
FILTERED, REFUSED = -1, -2
Folders = Sequence[int]


class Sorted:
    """The only logic: the folder of the record at each offset, or what becomes of it else."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders

    def sort(self, messages: Sequence[Message]) -> Batch:
        batch = Batch()
        for message in messages:
            folder = self._folders[message.offset]
            if folder == FILTERED:
                batch.filtered += 1
            elif folder == REFUSED:
                batch.refused.append((message, InvalidRecord("refused", reason="bad")))
            else:
                batch.kept.setdefault((f"user={folder}",), []).append(message)
        return batch

    def holding(self, partition: int, first: int, timestamp_ms: int) -> CutLogic:
        return CutLogic("c", lambda _first: self.sort, VERBATIM, VERBATIM)

    def border(self, partition: int, first: int) -> int | None:
        return None

    def of(self, config: str) -> CutLogic:
        return self.holding(0, 0, 0)


class Killed(Exception):
    """The worker dies."""


class Mortal(MemoryStore):
    """A bucket whose worker dies at a write, before or after it."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.after = False

    def _write(self, key: str, body: bytes, metadata: Mapping[str, str] | None) -> ObjectInfo:
        dies = self.left == 0
        if self.left is not None:
            self.left = max(0, self.left - 1)
        if dies and not self.after:
            raise Killed
        found = super()._write(key, body, metadata)
        if dies:
            raise Killed
        return found


class Topic:
    """With a record for each folder."""

    def __init__(self, folder: Path, folders: Folders, leaders: dict[int, int] | None = None) -> None:
        self.log, self.store, self.folders, self.folder = MemoryLog(), Mortal(), folders, folder
        self.log.admin().ensure(TopicSpec("events", 1))
        writer = self.log.writer("w")
        writer.begin()
        for number in range(len(folders)):
            writer.append("events", b"k", b"%d" % number)
        writer.commit()
        info = self.log.admin().describe("events")
        assert info is not None
        self.key = ChainKey(TopicKey("lake", "events", info.named_id), 0, 0)
        self.ranges = LeaderEpochs(self.log, leaders or {})

    def advance(self, max_folders: int) -> list[Commit]:
        done: list[Commit] = []
        cuts = LogCuts(self.ranges, self.key, Sorted(self.folders), self.folder, 1 << 30, max_folders)
        Chain(self.store, self.key).advance(PlannedEnd(len(self.folders), "flush", "", "w"), cuts, done.append)
        return done

    def stored(self) -> list[int]:
        found = []
        for info in self.store.list("lake/events/"):
            body = self.store.get(info.key)
            assert body is not None
            found += [message.offset for message in VERBATIM.read(io.BytesIO(body.body))]
        return sorted(found)


def test_a_cut_ends_at_the_record_that_would_open_one_folder_more(tmp_path: Path) -> None:
    topic = Topic(tmp_path / "cuts", [1, 1, 2, 1, 3, 1, FILTERED, 2, 4, 5, 5])
    done = topic.advance(2)
    assert [(each.first, each.next, len(each.files)) for each in done] == [(0, 4, 2), (4, 7, 2), (7, 9, 2), (9, 11, 1)]
    assert [each.filtered for each in done] == [0, 1, 0, 0]
    assert topic.stored() == [0, 1, 2, 3, 4, 5, 7, 8, 9, 10]


def test_what_is_set_aside_is_a_folder_too(tmp_path: Path) -> None:
    topic = Topic(tmp_path / "cuts", [1, REFUSED, 2, REFUSED])
    assert [(each.next, each.quarantined) for each in topic.advance(2)] == [(2, 1), (4, 1)]


def test_a_cut_that_was_promised_is_read_again_whole_under_a_lower_bound(tmp_path: Path) -> None:
    topic = Topic(tmp_path / "cuts", list(range(30)))
    topic.store.left = 10
    with suppress(Killed):
        topic.advance(20)
    topic.store.left = None
    assert [(each.first, each.next) for each in topic.advance(8)] == [(0, 20), (20, 28), (28, 30)]
    assert topic.stored() == list(range(30))


def test_thousands_of_dates_are_many_cuts_of_few_folders(tmp_path: Path) -> None:
    topic = Topic(tmp_path / "cuts", list(range(5_000)))
    done = topic.advance(100)
    assert {len(each.files) for each in done} == {100}
    assert topic.stored() == list(range(5_000))


def test_a_commit_has_the_epoch_of_the_last_record_that_is_in_its_cut(tmp_path: Path) -> None:
    topic = Topic(tmp_path / "cuts", list(range(8)), leaders={0: 3, 5: 4})
    assert [each.leader_epoch for each in topic.advance(3)] == [3, 4, 4]


@settings(max_examples=200, deadline=None)
@given(
    folders=st.lists(st.integers(REFUSED, 12), min_size=1, max_size=60),
    bounds=st.lists(st.integers(1, 6), min_size=4, max_size=4),
    kills=st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=3),
)
def test_each_record_is_stored_once_whatever_the_bound_and_whenever_workers_die(
    folders: Folders, bounds: list[int], kills: list[tuple[int, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        topic = Topic(Path(folder) / "cuts", folders)
        for (left, after), bound in zip(kills, bounds, strict=False):
            topic.store.left, topic.store.after = left, after
            with suppress(Killed):
                topic.advance(bound)
        topic.store.left = None
        topic.advance(bounds[-1])
        commits = list(Chain(topic.store, topic.key).commits(0))
        assert topic.stored() == [number for number, folder in enumerate(folders) if folder != FILTERED]
        assert all(len(each.files) <= max(bounds) for each in commits)
        assert sum(each.n_records for each in commits) == len(folders)
        assert sum(each.filtered for each in commits) == folders.count(FILTERED)


def test_the_bound_of_a_group_reaches_its_tasks(tmp_path: Path) -> None:
    declared = GROUP.model_dump(exclude_unset=True)
    exception = {"topics": "e2", "max_folders": 3}
    group = LakeGroup.model_validate({**declared, "policy": {"max_folders": 70, "topics": [exception]}})
    world = LakeHarness(tmp_path)
    driver = world.started(group)
    for name in ("e1", "e2"):
        world.memory.admin().ensure(TopicSpec(name, 1))
        writer = world.memory.writer(name)
        writer.begin()
        writer.append(name, b"k", b"v")
        writer.commit()
    for _ in range(3):
        driver.step("flush")
    driver.settle()
    assert {each.task.range.tp.topic: each.task.max_folders for each in world.outcomes} == {"e1": 70, "e2": 3}
