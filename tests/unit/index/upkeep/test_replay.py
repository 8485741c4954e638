from __future__ import annotations

import pytest

from include.clock import ManualClock
from include.errors import Terminal, Transient
from include.index.bulk.sender import Delivery
from include.index.definition import IndexTopic
from include.index.feed import Feed
from include.index.metadata import TopicOrigin
from include.index.outcome import TaskOutcome
from include.index.server.memory import MemoryIndex
from include.index.server.port import BulkAnswer
from include.index.states import States
from include.index.task import IndexTask, raw_of
from include.index.upkeep.replay import Replayed, letters_of, replay, try_out
from include.log import topics
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import Record
from include.log.publishing.dead_letter import DeadLetter
from tests.support.documents.topic import MAPPING, DocumentTopic

NAME, DEAD = "orders-v1", topics.dead("docs", "a")


class Harness:
    """Four letters: one that a mended mapping takes, one still refused, one unreadable, one overtaken."""

    def __init__(self) -> None:
        self.log, self.registry, self.index = MemoryLog(), MemoryRegistry(), MemoryIndex()
        self.topic = DocumentTopic("docs", self.log.admin(), self.log.writer("w"), self.registry)
        self.log.admin().ensure(topics.document_spec(DEAD, 1))
        self.states = States(Feed(TopicOrigin("c", "t", "docs", 1), IndexTopic(entity="order")), self.registry)
        self.index.create(NAME, {"mappings": MAPPING})
        self.topic.put(1, note="5")
        self.topic.put(2, note="no number")
        self.topic.spoil(3, b"\x01")
        self.topic.put(4)
        reader = self.log.reader()
        self.records = [r for p, end in reader.end_offsets("docs").items() for r in reader.read("docs", p, 0, end)]
        self.topic.put(4, state="cancelled")
        newer = [r for p, end in reader.end_offsets("docs").items() for r in reader.read("docs", p, 0, end)]
        self.run([record for record in newer if record not in self.records])
        writer = self.log.writer("dead")
        writer.begin()
        for record in [*self.records, self.records[0]]:
            letter = DeadLetter(record, "a", "why", 1)
            writer.append(DEAD, letter.key, letter.value, headers=letter.headers)
        writer.commit()

    def run(self, records: list[Record]) -> TaskOutcome:
        delivery = Delivery(
            lambda data: self.index.bulk(NAME, data), ManualClock(), index=NAME, bulk_bytes=1000, patience_s=5
        )
        return IndexTask(states={"docs": self.states}, delivery=delivery, window_bytes=1000).run(map(raw_of, records))

    def replay(self) -> Replayed:
        return replay("docs", letters_of(self.log.reader(), DEAD, "docs"), self.run, lambda _: None)


def test_each_letter_is_told_as_written_stale_or_still_refused_with_the_answer() -> None:
    world = Harness()
    out = world.replay()
    assert (out.read, out.done, out.stale, len(out.refused)) == (4, 1, 1, 2)
    reasons = " ".join(reason for _, reason in out.refused)
    assert "document_parsing_exception" in reasons
    assert "wire format" in reasons
    found = world.index.get(NAME, "4")
    assert found is not None
    assert found.source["order"]["state"] == "cancelled"
    assert world.index.get(NAME, "1") is not None


def test_a_second_replay_changes_nothing() -> None:
    world = Harness()
    world.replay()
    out = world.replay()
    assert (out.done, out.stale, len(out.refused)) == (0, 2, 2)
    assert out.to_json()["refused"][0]["at"].startswith("docs/")


def test_a_dry_run_writes_nothing_and_tells_what_can_be_told() -> None:
    world = Harness()
    before = world.index.requests

    def versions(ids: list[str]) -> dict[str, int]:
        return {name: found.version for name, found in world.index.get_many(NAME, ids).items()}

    out = try_out("docs", letters_of(world.log.reader(), DEAD, "docs"), world.states, versions)
    assert (out.read, out.done, out.stale, len(out.refused)) == (4, 2, 1, 1)
    assert world.index.requests == before + 1
    assert world.index.get(NAME, "1") is None


def test_without_a_dead_letter_topic_there_is_nothing_to_replay() -> None:
    assert list(letters_of(MemoryLog().reader(), DEAD, "docs")) == []


def test_letters_of_a_topic_as_it_was_before_it_was_made_anew_are_passed_over() -> None:
    world = Harness()
    reader, writer = world.log.reader(), world.log.writer("dead")
    writer.begin()
    for topic_id in ("old", "new"):
        letter = DeadLetter(Record("docs", 0, 900, b"k", topic_id.encode()), "a", "why", 1, topic_id)
        writer.append(DEAD, letter.key, letter.value, headers=letter.headers)
    writer.commit()
    later = [record.value for record in letters_of(reader, DEAD, "docs", "new") if record.offset == 900]
    assert later == [b"new"]
    assert len(list(letters_of(reader, DEAD, "docs", "new"))) == 5
    assert list(letters_of(reader, DEAD, "other")) == []


def test_a_lost_index_or_a_full_one_is_told_and_nothing_is_skipped() -> None:
    world = Harness()
    world.index.answers.extend([BulkAnswer(503, reason="away")] * 100)
    with pytest.raises(Transient, match="away"):
        world.replay()
    world.index.answers.clear()
    world.index.drop(NAME)
    with pytest.raises(Terminal, match="lyrebird index create orders"):
        world.replay()
