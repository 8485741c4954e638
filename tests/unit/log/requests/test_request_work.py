"""Requests worked off over many batches and restarts, by work that counts to ten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from include.log.ports import Record
from include.log.requests.records import Answer, Request
from include.log.requests.work import RequestWork

TEN = 10


@dataclass(frozen=True)
class Counted:
    """How far a request has counted, in steps of its `rows_per_s`."""

    request: Request
    reached: int = 0


class Counts(RequestWork[Counted]):
    """The shortest of them first."""

    def _progress(self, work: Counted) -> Mapping[str, Any]:
        return {"reached": work.reached}

    def _resumed(self, request: Request, answer: Answer, progress: Mapping[str, Any]) -> Counted:
        assert answer.done == progress["reached"]
        return Counted(request, progress["reached"])

    def _turn(self, work: Counted) -> tuple[int, str]:
        return -(work.request.rows_per_s or 0), work.request.id


def request(id_: str, step: int = 3) -> Request:
    return Request(id_, "rebuild", "test", 1, keys=("a", "b"), rows_per_s=step)


class Writer:
    """Commits answers, all of a batch or none."""

    def __init__(self) -> None:
        self.answers: list[Record] = []
        self.counted: list[tuple[str, int]] = []
        self.versions: list[int] = []

    def batch(self, counts: Counts, asked: list[Request], version: int, *, dies: bool = False) -> None:
        said: list[tuple[Answer, Counted]] = []
        for each in asked:
            reason = counts.take(Counted(each), "" if each.rows_per_s else "it never ends")
            if reason is not None:
                state = "refused" if reason else "accepted"
                said.append((Answer(each.id, state, 0, note=reason), Counted(each)))  # type: ignore[arg-type]
        work = counts.due(version)
        counted = []
        if work is not None:
            after = replace(work, reached=min(TEN, work.reached + (work.request.rows_per_s or 0)))
            counts.record(after, version, finished=after.reached == TEN)
            counted = [(work.request.id, n) for n in range(work.reached, after.reached)]
            said.append(
                (Answer(work.request.id, "done" if after.reached == TEN else "running", 0, after.reached), after)
            )
        if dies:
            return
        self.counted += counted
        self.versions += [version] * bool(counted)
        for answer, counted_work in said:
            headers = counts.headers(counted_work) if answer.state != "refused" else ()
            self.answers.append(Record("t.answers", 0, 0, answer.key(), answer.value(), headers, 0))


asked_for = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 4)), max_size=2)


@given(st.lists(st.tuples(asked_for, st.booleans(), st.booleans(), st.integers(0, 1)), max_size=30))
def test_whatever_dies_each_request_is_carried_out_once_and_no_version_twice(
    steps: list[tuple[list[tuple[str, int]], bool, bool, int]],
) -> None:
    writer, counts, version = Writer(), Counts(), 1
    asked: dict[str, int] = {}
    for requests, dies, restarts, later in steps:
        version += later
        writer.batch(counts, [request(id_, step) for id_, step in requests], version, dies=dies)
        if not dies:
            for id_, step in requests:
                asked.setdefault(id_, step)
        if dies or restarts:
            counts = Counts(writer.answers)
    while counts.open:
        version += 1
        writer.batch(counts, [], version)
    assert sorted(writer.counted) == sorted((id_, n) for id_, step in asked.items() if step for n in range(TEN))
    assert len(writer.versions) == len(set(writer.versions))
    assert counts.closed == set(asked)


def test_what_is_asked_again_is_known_and_not_answered_again() -> None:
    counts = Counts()
    assert (counts.take(Counted(request("a"))), counts.take(Counted(request("a")))) == ("", None)
    assert (counts.take(Counted(request("b")), "no"), counts.take(Counted(request("b")))) == ("no", None)
    assert (counts.knows("a"), counts.knows("b"), counts.knows("c")) == (True, True, False)


def test_the_answer_of_a_request_that_is_done_no_longer_carries_its_keys() -> None:
    counts = Counts()
    counts.take(Counted(request("a")))
    ((_, running),) = counts.headers(counts.open["a"])
    counts.record(counts.open["a"], 5, finished=True)
    ((_, done),) = counts.headers(Counted(request("a")))
    assert running is not None
    assert done is not None
    assert (b'\\"a\\",\\"b\\"' in running, b'\\"a\\",\\"b\\"' in done) == (True, False)
