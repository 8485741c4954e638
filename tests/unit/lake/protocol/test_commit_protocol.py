from __future__ import annotations

from typing import Any

import pytest

from include.errors import Terminal
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.commit_protocol import PlannedEnd, advance, find_head, write_cut
from include.lake.protocol.commit_rules import joined_gaps
from include.lake.protocol.cut import Commit, Gap, Intent
from include.lake.protocol.log_checks import check_log, gap_at
from include.lake.protocol.steps import (
    CutCommitted,
    Get,
    Heads,
    ListAfter,
    LocalCut,
    LocalFile,
    ObjectSeen,
    PutBody,
    PutFiles,
    ReadRange,
    Steps,
)

CHAIN = ChainKey(TopicKey("lake", "shop", "q2mGjA1dRHyJ8pAQ1gK9xw"), 1, 0)
PLAN = PlannedEnd(10, "age", "age 60 s", "a")


def key(name: str, first: int = 0) -> str:
    return str(CHAIN.data((name,), first, ".seq"))


def local(name: str, *offsets: int, sha: str = "a", first: int = 0) -> LocalFile:
    least, most = (min(offsets), max(offsets)) if offsets else (None, None)
    return LocalFile(key(name, first), "path", 10 * len(offsets), sha * 64, len(offsets), least, most, least, most)


def cut(*files: LocalFile, end: int = 10, filtered: int = 0, gaps: tuple[Gap, ...] = (), config: str = "c") -> LocalCut:
    return LocalCut(end, files, filtered, config, {"zlib": "1"}, gaps, 3, 0, 9)


ONE, TWO = local("dt=1", 0, 1, 2), local("dt=2", 3, 9)
WHOLE = cut(ONE, TWO)


class ProtocolDriver:
    """Says to a run what it is told, and remembers what it asked."""

    def __init__(self, steps: Steps[Any]) -> None:
        self.steps = steps
        self.asked: Any = next(steps)
        self.result: Any = None

    def hear(self, outcome: Any) -> Any:
        try:
            self.asked = self.steps.send(outcome)
        except StopIteration as end:
            self.result, self.asked = end.value, None
        return self.asked


def promised(talk: ProtocolDriver) -> Intent:
    assert isinstance(talk.asked, PutBody)
    return Intent.parse(talk.asked.body, CHAIN, 0)


def test_the_steps_of_a_cut_in_their_order() -> None:
    talk = ProtocolDriver(advance(CHAIN, 0, None, PLAN))
    assert talk.asked == ListAfter(f"{CHAIN}/", "")
    assert talk.hear(()) == ReadRange(0, 10, False)
    talk.hear(WHOLE)
    intent = promised(talk)
    assert (talk.asked.key, intent.end, intent.reason) == (CHAIN.intent(0), 10, "age")
    assert [file.key for file in intent.files] == [ONE.key, TWO.key]
    assert isinstance(talk.hear("created"), PutFiles)
    assert [put.file for put in talk.asked.puts] == [ONE, TWO]
    assert talk.asked.puts[0].metadata == {
        "intent": intent.id(CHAIN, 0),
        "sha256": "a" * 64,
        "records": "3",
        "first": "0",
        "last": "2",
        "min-ts": "0",
        "max-ts": "2",
    }
    assert isinstance(talk.hear(("created", "created")), PutBody)
    assert talk.asked.key == CHAIN.commit(0)
    commit = Commit.parse(talk.asked.body, CHAIN, 0)
    assert (commit.next, commit.n_records, commit.filtered, commit.min_ts, commit.max_ts) == (10, 5, 0, 0, 9)
    assert talk.hear("created") == CutCommitted(commit)
    assert talk.hear(None) is None
    assert talk.result.next == 10


def test_a_range_without_records_is_committed_too() -> None:
    talk = ProtocolDriver(write_cut(CHAIN, 0, PLAN))
    talk.hear(cut(filtered=4))
    talk.hear("created")
    assert talk.asked.key == CHAIN.commit(0)
    talk.hear("created")
    assert (talk.result.files, talk.result.n_records) == ((), 4)


def test_a_reader_that_stops_for_size_ends_the_cut_there() -> None:
    talk = ProtocolDriver(write_cut(CHAIN, 0, PLAN))
    talk.hear(cut(ONE, end=3))
    assert (promised(talk).end, promised(talk).reason) == (3, "size")


def test_the_head_is_where_the_last_commit_ends() -> None:
    talk = ProtocolDriver(find_head(CHAIN, 0, 4))
    assert talk.asked == ListAfter(f"{CHAIN}/", f"{CHAIN}/00000000000000000004")
    talk.hear((CHAIN.commit(4), CHAIN.intent(4), CHAIN.commit(7), CHAIN.intent(7), CHAIN.intent(12)))
    assert talk.asked == Get(CHAIN.commit(7))
    talk.hear(Commit(7, 12, "0" * 32, 0, 0, 0, None, None, (), None, "c", {}, ()).to_bytes())
    assert (talk.result.next, talk.result.last, talk.result.unfinished, talk.result.listed) == (12, 7, True, 2)


def at_intent_lost(*files: LocalFile, end: int = 10, writer: str = "b") -> ProtocolDriver:
    """A worker that read WHOLE and met another's intent."""
    talk = ProtocolDriver(write_cut(CHAIN, 0, PLAN))
    talk.hear(WHOLE)
    intent = promised(talk)
    theirs = ProtocolDriver(write_cut(CHAIN, 0, PlannedEnd(end, "age", "age 60 s", writer)))
    theirs.hear(cut(*files, end=end))
    assert talk.hear("exists") == Get(CHAIN.intent(0))
    talk.hear(theirs.asked.body)
    assert promised(theirs) != intent
    return talk


def test_who_loses_the_intent_to_the_same_promise_goes_on_with_its_files() -> None:
    talk = at_intent_lost(ONE, TWO)
    assert talk.asked == Get(CHAIN.commit(0))
    assert isinstance(talk.hear(None), PutFiles)


def test_who_loses_the_intent_to_another_end_reads_that_range_again() -> None:
    talk = at_intent_lost(ONE, end=3)
    assert talk.hear(None) == ReadRange(0, 3, True, "c", (ONE.key,))
    assert isinstance(talk.hear(cut(ONE, end=3)), PutFiles)


def test_who_finds_the_cut_finished_does_nothing() -> None:
    first = ProtocolDriver(write_cut(CHAIN, 0, PLAN))
    first.hear(WHOLE)
    body = first.asked.body
    for answer in ("created", ("created", "created"), "created"):
        first.hear(answer)
    talk = ProtocolDriver(write_cut(CHAIN, 0, PlannedEnd(5, "flush", "flush", "late")))
    talk.hear(cut(ONE, end=5))
    talk.hear("exists")
    talk.hear(body)
    talk.hear(first.result.to_bytes())
    assert talk.result == first.result


@pytest.mark.parametrize(
    "again",
    [
        cut(local("dt=1", 0, 1), local("dt=2", 3, 9)),
        cut(local("dt=1", 2), local("dt=2")),
        cut(local("dt=1"), local("dt=2")),
    ],
    ids=["one gone", "more gone", "all gone"],
)
def test_a_range_read_again_may_show_less(again: LocalCut) -> None:
    talk = ProtocolDriver(write_cut(CHAIN, 0, PLAN, begun=True))
    talk.hear(_intent_of(WHOLE))
    talk.hear(None)
    assert isinstance(talk.hear(again), PutFiles)


def _intent_of(found: LocalCut) -> bytes:
    talk = ProtocolDriver(write_cut(CHAIN, 0, PLAN))
    talk.hear(found)
    return bytes(talk.asked.body)


@pytest.mark.parametrize(
    "again",
    [
        cut(local("dt=1", 0, 1), local("dt=2", 3, 4, 9)),
        cut(local("dt=1", 0, 1, 2, 4), local("dt=2", 3, 9)),
        cut(local("dt=1", 0), local("dt=2", 3, 4, 9)),
        cut(local("dt=1", 0, 4), local("dt=2", 9)),
        cut(local("dt=1", 0, 1, 2)),
        cut(ONE, TWO, local("dt=3")),
        cut(ONE, TWO, config="d"),
        cut(ONE, TWO, end=11),
    ],
    ids=["moved", "more", "more in one", "elsewhere", "a name less", "a name more", "other parser", "other end"],
)
def test_a_range_read_again_that_is_told_apart_otherwise_stops_the_worker(again: LocalCut) -> None:
    talk = ProtocolDriver(write_cut(CHAIN, 0, PLAN, begun=True))
    talk.hear(_intent_of(WHOLE))
    talk.hear(None)
    with pytest.raises(Terminal, match="told apart otherwise"):
        talk.hear(again)


def stored(file: LocalFile, intent: str, **changes: str) -> ObjectSeen:
    metadata = {
        "intent": intent,
        "sha256": file.sha256,
        "records": str(file.records),
        "first": str(file.first),
        "last": str(file.last),
    }
    return ObjectSeen(file.bytes, {**metadata, **changes})


def at_heads() -> tuple[ProtocolDriver, str]:
    talk = ProtocolDriver(write_cut(CHAIN, 0, PLAN))
    talk.hear(WHOLE)
    intent = promised(talk).id(CHAIN, 0)
    talk.hear("created")
    assert talk.hear(("exists", "created")) == Heads((ONE.key,))
    return talk, intent


def test_an_object_with_the_same_bytes_is_done() -> None:
    talk, _ = at_heads()
    talk.hear((stored(ONE, "another"),))
    assert not Commit.parse(talk.asked.body, CHAIN, 0).files[0].adopted


def test_an_object_of_the_same_intent_is_adopted_with_what_it_says() -> None:
    talk, intent = at_heads()
    talk.hear((stored(local("dt=1", 0, 2, sha="f"), intent, **{"min-ts": "-7", "gaps": "1-2,4-5"}),))
    commit = Commit.parse(talk.asked.body, CHAIN, 0)
    assert commit.files[0] == (ONE.key, 20, "f" * 64, 2, 0, 2, -7, None, True)
    assert (commit.n_records, commit.min_ts) == (4, -7)
    assert commit.gaps == (Gap(1, 2, "before"), Gap(4, 5, "before"))


def test_an_object_of_another_intent_stops_the_worker() -> None:
    talk, _ = at_heads()
    with pytest.raises(Terminal, match="none of this cut"):
        talk.hear((stored(local("dt=1", 0, 2, sha="f"), "another"),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"records": "many"}, "cannot be read"),
        ({"gaps": "1"}, "cannot be read"),
        ({"records": "4"}, "more than its cut promised"),
        ({"last": "3"}, "more than its cut promised"),
    ],
)
def test_an_object_that_cannot_be_of_its_cut_stops_the_worker(changes: dict[str, str], message: str) -> None:
    talk, intent = at_heads()
    with pytest.raises(Terminal, match=message):
        talk.hear((stored(local("dt=1", 0, 2, sha="f"), intent, **changes),))


def test_a_file_that_is_not_there_is_put_again() -> None:
    talk, _ = at_heads()
    assert isinstance(talk.hear((None,)), PutFiles)
    assert [put.file for put in talk.asked.puts] == [ONE]
    talk.hear(("created",))
    assert talk.asked.key == CHAIN.commit(0)


def again_and_again(talk: ProtocolDriver, *outcomes: Any) -> None:
    for _ in range(20):
        for outcome in outcomes:
            talk.hear(outcome)


def test_a_store_that_contradicts_itself_is_left() -> None:
    talk, _ = at_heads()
    with pytest.raises(Terminal, match="shows none"):
        again_and_again(talk, (None,), ("exists",))


def test_a_store_without_an_answer_is_asked_for_as_long_as_its_owner_wants() -> None:
    talk = ProtocolDriver(write_cut(CHAIN, 0, PLAN))
    talk.hear(WHOLE)
    for _ in range(50):
        assert talk.hear("unknown") == Get(CHAIN.intent(0))
        assert isinstance(talk.hear(None), PutBody)


@pytest.mark.parametrize("kind", ["intent", "commit"])
def test_intents_and_commits_that_are_there_and_are_not_stop_the_worker(kind: str) -> None:
    talk = ProtocolDriver(write_cut(CHAIN, 0, PLAN))
    talk.hear(WHOLE)
    if kind == "commit":
        talk.hear("created")
        talk.hear(("created", "created"))
    with pytest.raises(Terminal, match="shows none"):
        again_and_again(talk, "exists", None)


def at_commit() -> tuple[ProtocolDriver, Commit]:
    talk = ProtocolDriver(write_cut(CHAIN, 0, PLAN))
    talk.hear(WHOLE)
    talk.hear("created")
    talk.hear(("created", "created"))
    return talk, Commit.parse(talk.asked.body, CHAIN, 0)


def test_a_commit_that_stands_is_the_one() -> None:
    talk, mine = at_commit()
    talk.hear("unknown")
    talk.hear(mine.to_bytes())
    assert talk.result == mine


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"next": 12}, "not the one that its intent promised"),
        ({"intent": "0" * 32}, "not the one that its intent promised"),
        ({"files": (), "n_records": 0}, "other bytes than the store has"),
    ],
)
def test_another_commit_stops_the_worker(changes: dict[str, Any], message: str) -> None:
    talk, mine = at_commit()
    talk.hear("exists")
    fields = {name: getattr(mine, name) for name in Commit.__slots__}
    with pytest.raises(Terminal, match=message):
        talk.hear(Commit(**{**fields, **changes}).to_bytes())


def test_what_was_listed_and_is_gone_stops_the_worker() -> None:
    talk = ProtocolDriver(find_head(CHAIN, 0, None))
    talk.hear((CHAIN.commit(7),))
    with pytest.raises(Terminal, match="a commit that was listed is gone"):
        talk.hear(None)
    talk = ProtocolDriver(write_cut(CHAIN, 0, PLAN, begun=True))
    with pytest.raises(Terminal, match="an intent that was listed is gone"):
        talk.hear(None)


@pytest.mark.parametrize(
    ("found", "exact", "message"),
    [
        (cut(end=0), False, "ended a cut where it must not"),
        (cut(end=11), False, "ended a cut where it must not"),
        (cut(ONE, end=5), True, "ended a cut where it must not"),
        (cut(ONE, ONE), False, "files that no cut can have"),
        (cut(local("dt=1", 10)), False, "files that no cut can have"),
        (cut(local("dt=1", 5, first=5)), False, "files that no cut can have"),
    ],
    ids=["no progress", "too far", "too short", "twice", "outside", "another cut's"],
)
def test_a_reader_that_errs_stops_before_anything_is_written(found: LocalCut, exact: bool, message: str) -> None:
    talk = ProtocolDriver(write_cut(CHAIN, 0, PlannedEnd(10, "age", "age 60 s", "a", exact)))
    with pytest.raises(Terminal, match=message):
        talk.hear(found)


def test_gaps_are_joined_and_sorted() -> None:
    assert joined_gaps(7, [(20, 25), (7, 9), (8, 12), (12, 13)]) == (Gap(7, 13, "lost"), Gap(20, 25, "lost"))
    assert joined_gaps(0, [(0, 5)]) == (Gap(0, 5, "before"),)
    assert joined_gaps(0, [(0, 5)], 7) == (Gap(0, 5, "lost"),)


def test_only_what_the_log_has_dropped_is_a_gap() -> None:
    assert gap_at(7, 7, 20, 7) is None
    assert gap_at(7, 7, 20, 12) == Gap(7, 12, "lost")
    assert gap_at(7, 9, 20, 30) == Gap(9, 20, "lost")
    assert gap_at(0, 0, 20, 12) == Gap(0, 12, "before")


def test_a_log_that_ends_before_its_chain_was_truncated() -> None:
    check_log(CHAIN, 10, 10)
    with pytest.raises(Terminal, match="truncated"):
        check_log(CHAIN, 10, 9)
