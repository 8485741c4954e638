from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from include.errors import BackPressure, Terminal, Transient
from include.lake.protocol import chain as chain_module
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.commit_protocol import PlannedEnd
from include.lake.protocol.cut import Commit
from include.lake.protocol.runner import Runner, UploadConcurrency
from include.lake.protocol.steps import LocalCut, LocalFile, PutFile, PutFiles, ReadRange
from include.store.memory import MemoryStore
from include.store.object_store import PART_BYTES

KEY = ChainKey(TopicKey("lake", "shop", "q2mGjA1dRHyJ8pAQ1gK9xw"), 1, 0)


class Numbers:
    """Offsets, two folders for even and odd ones, cut after `most` records."""

    def __init__(self, folder: Path, key: ChainKey = KEY, most: int = 10**9) -> None:
        self.folder, self.key, self.most = folder, key, most
        self.asked: list[ReadRange] = []

    def read(self, wanted: ReadRange) -> LocalCut:
        self.asked.append(wanted)
        end = wanted.until if wanted.exact else min(wanted.until, wanted.first + self.most)
        offsets = range(wanted.first, end)
        held = {name: [each for each in offsets if each % 2 == odd] for odd, name in enumerate(("even", "odd"))}
        files = tuple(self.file(name, wanted.first, each) for name, each in held.items() if each)
        return LocalCut(end, files, 0, "config 1", {"zlib": "1"})

    def file(self, name: str, first: int, held: list[int]) -> LocalFile:
        body = "".join(f"{offset}\n" for offset in held).encode()
        path = self.folder / f"{first}-{name}"
        path.write_bytes(body)
        digest = hashlib.sha256(body).hexdigest()
        key = str(self.key.data((name,), first, ".txt"))
        return LocalFile(key, str(path), len(body), digest, len(held), held[0], held[-1], None, None)


def plan(until: int, *, exact: bool = False) -> PlannedEnd:
    return PlannedEnd(until, "age", "age 60 s", "worker", exact)


class Moody(MemoryStore):
    """Does what `moods` say to each call in turn; counts the calls."""

    def __init__(self, moods: Mapping[int, str] | None = None) -> None:
        super().__init__()
        self.moods = dict(moods or {})
        self.calls: list[str] = []

    def _mood(self, name: str, call: Callable[[], Any]) -> Any:
        mood = self.moods.get(len(self.calls), "fine")
        self.calls.append(name)
        if mood == "lost before":
            raise Transient("no answer", system="s3")
        if mood == "full":
            raise BackPressure("slow down", system="s3")
        found = call()
        if mood == "lost after":
            raise Transient("no answer", system="s3")
        return found

    def get(self, key: str) -> Any:
        return self._mood("get", lambda: super(Moody, self).get(key))

    def put(self, key: str, body: bytes, **more: Any) -> Any:
        return self._mood("put", lambda: super(Moody, self).put(key, body, **more))

    def put_if_absent(self, key: str, body: bytes, **more: Any) -> Any:
        return self._mood("put_if_absent", lambda: super(Moody, self).put_if_absent(key, body, **more))

    def upload(self, key: str, parts: Any, **more: Any) -> Any:
        return self._mood("upload", lambda: super(Moody, self).upload(key, parts, **more))

    def list(self, prefix: str, *, start_after: str = "") -> Any:
        return self._mood("list", lambda: list(MemoryStore.list(self, prefix, start_after=start_after)))


class Patient:
    """Notes how often in a row the store did not answer."""

    def __init__(self) -> None:
        self.waits: list[int] = []

    def __call__(self, attempt: int, error: Transient | BackPressure) -> None:
        self.waits.append(attempt)


def test_a_range_becomes_cuts_and_each_is_told(tmp_path: Path) -> None:
    chain = Chain(MemoryStore(), KEY)
    told: list[Commit] = []
    head = chain.advance(plan(25), Numbers(tmp_path, most=10), told.append)
    assert (head.next, head.last, head.unfinished) == (25, 20, False)
    assert [(commit.first, commit.next) for commit in told] == [(0, 10), (10, 20), (20, 25)]
    assert list(chain.commits()) == told
    assert [file.records for file in told[0].files] == [5, 5]


def test_what_is_stored_already_is_left_alone(tmp_path: Path) -> None:
    store = Moody()
    Chain(store, KEY).advance(plan(25), Numbers(tmp_path), lambda _: None)
    before = store.calls.count("put_if_absent")
    reader = Numbers(tmp_path)
    assert Chain(store, KEY).advance(plan(20), reader, lambda _: None).next == 25
    assert reader.asked == []
    assert store.calls.count("put_if_absent") == before


def test_a_cut_costs_its_files_and_two_puts(tmp_path: Path) -> None:
    store = Moody()
    chain = Chain(store, KEY)
    chain.advance(plan(10), Numbers(tmp_path), lambda _: None)
    store.calls.clear()
    chain.advance(plan(20), Numbers(tmp_path), lambda _: None)
    assert sorted(store.calls) == ["get", "list", *["put_if_absent"] * 4]


def test_an_unfinished_cut_is_found_and_finished_as_it_was_promised(tmp_path: Path) -> None:
    store = MemoryStore()
    Chain(store, KEY).advance(plan(12), Numbers(tmp_path), lambda _: None)
    store.delete(KEY.commit(0))
    chain = Chain(store, KEY)
    head = chain.head()
    assert (head.next, head.unfinished) == (0, True)
    reader = Numbers(tmp_path, most=5)
    assert chain.advance(plan(9), reader, lambda _: None).next == 12
    assert [(asked.until, asked.exact, asked.config) for asked in reader.asked] == [(12, True, "config 1")]


@pytest.mark.parametrize("mood", ["lost before", "lost after", "full"])
def test_any_one_call_may_go_wrong(tmp_path: Path, mood: str) -> None:
    calm = Moody()
    Chain(calm, KEY, sending=UploadConcurrency(1)).advance(plan(25), Numbers(tmp_path, most=10), lambda _: None)
    for number in range(len(calm.calls)):
        store, patient = Moody({number: mood}), Patient()
        chain = Chain(store, KEY, pause=patient, sending=UploadConcurrency(1))
        chain.advance(plan(25), Numbers(tmp_path, most=10), lambda _: None)
        assert patient.waits == [1]
        assert {key: found.body for key, found in store._objects.items()} == {
            key: found.body for key, found in calm._objects.items()
        }


def test_without_patience_the_stores_error_is_raised_and_another_run_goes_on(tmp_path: Path) -> None:
    store = Moody({4: "lost after"})
    with pytest.raises(Transient):
        Chain(store, KEY, sending=UploadConcurrency(1)).advance(plan(25), Numbers(tmp_path), lambda _: None)
    assert Chain(store, KEY).advance(plan(25), Numbers(tmp_path), lambda _: None).next == 25


def test_attempts_are_counted_until_the_store_answers(tmp_path: Path) -> None:
    store, patient = Moody(dict.fromkeys((0, 1, 2, 5), "lost before")), Patient()
    chain = Chain(store, KEY, pause=patient)
    chain.head()
    chain.head()
    assert patient.waits == [1, 2, 3, 1]


def test_a_store_that_answers_questions_and_refuses_every_write_is_given_up(tmp_path: Path) -> None:
    class Readable(MemoryStore):
        def put_if_absent(self, key: str, body: bytes, **more: Any) -> Any:
            raise Transient("no more room", system="s3", key=key)

    waits = []

    def until_ten(attempt: int, error: Transient | BackPressure) -> None:
        waits.append(attempt)
        if attempt == 10:
            raise error

    with pytest.raises(Transient, match="no more room"):
        Chain(Readable(), KEY, pause=until_ten).advance(plan(25), Numbers(tmp_path), lambda _: None)
    assert waits == list(range(1, 11))


def test_a_backfill_writes_the_same_cuts_with_the_same_bytes_under_its_generation(tmp_path: Path) -> None:
    store = MemoryStore()
    live = Chain(store, KEY)
    live.advance(plan(40), Numbers(tmp_path, most=10), lambda _: None)
    key = ChainKey(KEY.of, 2, 0)
    again = Chain(store, key)
    for commit in reversed(list(live.commits(12))):
        again.write_cut(commit.first, plan(commit.next, exact=True), Numbers(tmp_path, key, most=3))
    made = list(again.commits(contiguous=False))
    assert [commit.first for commit in made] == [10, 20, 30]
    assert [[file.sha256 for file in commit.files] for commit in made] == [
        [file.sha256 for file in commit.files] for commit in live.commits(12)
    ]


def test_a_chain_begins_where_its_entry_says(tmp_path: Path) -> None:
    chain = Chain(MemoryStore(), KEY, start=100)
    assert chain.head().next == 100
    chain.advance(plan(110), Numbers(tmp_path), lambda _: None)
    assert chain.commit(100) is not None
    assert chain.commit(0) is None


def test_commits_from_an_offset_on_begin_with_the_one_that_holds_it(tmp_path: Path) -> None:
    chain = Chain(MemoryStore(), KEY)
    chain.advance(plan(40), Numbers(tmp_path, most=10), lambda _: None)
    assert [commit.first for commit in chain.commits(19)] == [10, 20, 30]
    assert [commit.first for commit in chain.commits(20)] == [20, 30]
    assert list(chain.commits(40)) == []


@pytest.mark.parametrize("missing", [0, 10, 20])
def test_a_hole_in_the_chain_is_found(tmp_path: Path, missing: int) -> None:
    store = MemoryStore()
    chain = Chain(store, KEY)
    chain.advance(plan(40), Numbers(tmp_path, most=10), lambda _: None)
    store.delete(KEY.commit(missing))
    with pytest.raises(Terminal, match="a hole in the chain"):
        list(chain.commits())


def empty_chain(store: MemoryStore, count: int) -> list[Commit]:
    commits = [
        Commit(10 * n, 10 * n + 10, "0" * 32, 0, 0, 0, None, None, (), None, "c", {"zlib": "1"}, ())
        for n in range(count)
    ]
    for commit in commits:
        store.put(KEY.commit(commit.first), commit.to_bytes())
        store.put(KEY.intent(commit.first), b"")
    return commits


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_module, "SUMMARY_COMMITS", 10)
    monkeypatch.setattr(chain_module, "_HINT_COMMITS", 5)


@pytest.mark.usefixtures("small")
def test_summaries_stand_for_their_commits_and_are_made_again_when_missing() -> None:
    store = Moody()
    commits = empty_chain(store, 35)
    assert Chain(store, KEY).summarise() == 3
    kept = {each.key: each.etag for each in store.list(KEY.summaries)}
    assert list(kept) == [KEY.summary(first) for first in (0, 100, 200)]
    assert Chain(store, KEY).summarise() == 0
    for missing in [(0,), (100,), (200,), (0, 100), (100, 200), (0, 100, 200)]:
        for first in missing:
            store.delete(KEY.summary(first))
        for since in (0, 5, 99, 100, 151, 205, 300, 349, 350):
            assert list(Chain(store, KEY).commits(since)) == [each for each in commits if each.next > since]
        assert Chain(store, KEY).summarise() == len(missing)
        assert {each.key: each.etag for each in store.list(KEY.summaries)} == kept


@pytest.mark.usefixtures("small")
def test_with_summaries_few_objects_are_read() -> None:
    store = Moody()
    empty_chain(store, 35)
    Chain(store, KEY).summarise()
    store.calls.clear()
    assert len(list(Chain(store, KEY).commits())) == 35
    assert store.calls.count("get") == 3 + 5


@pytest.mark.usefixtures("small")
def test_a_summary_of_another_length_or_place_is_refused() -> None:
    store = MemoryStore()
    commits = empty_chain(store, 35)
    store.put(KEY.summary(50), b"\n".join(commit.to_bytes() for commit in commits[5:15]))
    with pytest.raises(Terminal, match="does not end where it begins"):
        Chain(store, KEY).summarise()
    store.put(KEY.summary(0), b"\n".join(commit.to_bytes() for commit in commits[:9]))
    with pytest.raises(Terminal, match="9 commits, not 10"):
        list(Chain(store, KEY).commits())
    store.put(KEY.summary(0), b"\n".join([b"{}"] * 10))
    with pytest.raises(Terminal, match="KeyError"):
        list(Chain(store, KEY).commits())


@pytest.mark.usefixtures("small")
def test_a_hole_is_never_summed_up() -> None:
    store = MemoryStore()
    empty_chain(store, 35)
    store.delete(KEY.commit(40))
    with pytest.raises(Terminal, match="a hole in the chain"):
        Chain(store, KEY).summarise()


@pytest.mark.usefixtures("small")
def test_a_head_that_was_far_leaves_a_hint() -> None:
    store = Moody()
    empty_chain(store, 35)
    assert Chain(store, KEY).head().listed == 35
    later = Chain(store, KEY)
    assert (later.head().listed, later.head().next) == (1, 350)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("hint", [b"", b"[]", b'{"first":"0"}', b'{"first":-1}', b'{"first":777}', b'{"first":15}'])
def test_a_wrong_hint_costs_a_listing_and_nothing_else(hint: bytes) -> None:
    store = MemoryStore()
    empty_chain(store, 35)
    store.put(KEY.hint, hint)
    assert Chain(store, KEY).head().next == 350


def test_big_files_go_up_in_parts(tmp_path: Path) -> None:
    store = Moody()
    body = bytes(range(256)) * (PART_BYTES // 256) * 2 + b"end"
    path = tmp_path / "big"
    path.write_bytes(body)
    file = LocalFile("lake/big", str(path), len(body), "0" * 64, 1, 0, 0, None, None)

    def once(outcomes: list[Any]) -> Any:
        outcomes.append((yield PutFiles((PutFile(file, {"sha256": "x"}),))))

    found: list[Any] = []
    for _ in range(2):
        Runner(store, chain_module.give_up, UploadConcurrency(1, PART_BYTES)).run(once(found))
    assert found == [("created",), ("exists",)]
    assert store.calls[0] == "upload"
    stored = store.get("lake/big")
    assert (stored.body, stored.info.metadata) == (body, {"sha256": "x"})


@pytest.mark.parametrize("harm", ["gone", "short", "long"])
@pytest.mark.parametrize("size", [10, PART_BYTES + 10])
def test_a_local_file_that_changed_is_not_sent_and_its_cut_is_read_again(tmp_path: Path, harm: str, size: int) -> None:
    class Careless(Numbers):
        harmed = 0

        def read(self, wanted: ReadRange) -> LocalCut:
            cut = super().read(wanted)
            file = cut.files[0]
            path, body = Path(file.path), b"x" * size
            path.write_bytes({"gone": body, "short": body[:-1], "long": body + b"x"}[harm] if self.harmed else body)
            if self.harmed and harm == "gone":
                path.unlink()
            self.harmed -= 1
            digest = hashlib.sha256(body).hexdigest()
            return cut._replace(files=(file._replace(bytes=size, sha256=digest), *cut.files[1:]))

    store, reader = MemoryStore(), Careless(tmp_path)
    reader.harmed = 1
    chain = Chain(store, KEY, sending=UploadConcurrency(2, PART_BYTES))
    with pytest.raises(Transient, match="not as it was closed"):
        chain.advance(plan(5), reader, lambda _: None)
    assert [info.key for info in store.list("lake/shop/even")] == []
    assert chain.advance(plan(5), reader, lambda _: None).next == 5
    (commit,) = chain.commits()
    assert commit.files[0].bytes == size


def test_sending_has_bounds() -> None:
    for bad in ((0, PART_BYTES), (1, PART_BYTES - 1)):
        with pytest.raises(Terminal, match="no way to send files"):
            UploadConcurrency(*bad)


def test_a_run_that_only_looks_reads_no_log() -> None:
    def steps() -> Any:
        yield ReadRange(0, 5, False)

    with pytest.raises(Terminal, match="only looks"):
        Runner(MemoryStore(), chain_module.give_up).run(steps())


def test_commits_are_asked_for_ahead_more_and_more_and_come_in_order(tmp_path: Path) -> None:
    store = Moody()
    chain = Chain(store, KEY)
    chain.advance(plan(90), Numbers(tmp_path, most=1), lambda _: None)
    store.calls.clear()
    commits = Chain(store, KEY).commits()
    assert next(commits).first == 0
    assert store.calls.count("get") == 1
    assert [commit.first for commit in commits] == list(range(1, 90))
    assert store.calls.count("get") == 90
    store.delete(KEY.commit(70))
    store.delete(KEY.intent(70))
    with pytest.raises(Terminal, match="a hole in the chain"):
        list(Chain(store, KEY).commits())
