"""What shows when objects are read, and what must not: other formats, other stores, gaps of the log."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from include.audit.chain.audit import ChainAuditOptions, audit_chain
from include.errors import Terminal
from include.lake.formats.json_lines import JsonLines, JsonLinesOptions
from include.lake.formats.port import FileIdentity, Format
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.message import Message
from include.lake.protocol import chain as chain_module
from include.lake.protocol.cut import Commit, Gap, Intent
from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo, StoredObject
from tests.support.lake.chain_harness import GROUPS, ChainHarness, faults

DEEP = ChainAuditOptions(depth="bytes")
VERBATIM = SequenceFile(layout="verbatim")


@pytest.fixture
def world(tmp_path: Path) -> ChainHarness:
    made = ChainHarness(tmp_path)
    made.fill(2)
    return made


def written(world: ChainHarness, form: Format, offsets: Sequence[int], group: str = "raw") -> bytes:
    chain = world.chain(group)
    stream = BytesIO()
    identity = FileIdentity("e", chain.of.topic_id, 0, 61, ("offset=0",))
    writer = form.open(stream, identity)
    writer.write([Message(offset, b"k", b"%d" % offset, (), 1_000_000, 1) for offset in offsets])
    writer.close()
    return stream.getvalue()


def store_instead(world: ChainHarness, body: bytes, records: int, *, key: str = "", group: str = "raw") -> str:
    """The object of the second cut with other bytes, committed as those; `key` names it anew, intent and all."""
    chain, commit = world.chain(group), world.commits(group)[1]
    (file,) = commit.files
    intent = Intent.parse(world.body(chain.intent(61)), chain, 61)
    world.store.delete(file.key)
    key = key or file.key
    files = (file._replace(key=key, sha256=hashlib.sha256(body).hexdigest(), bytes=len(body), records=records),)
    promised = replace(intent, files=(intent.files[0]._replace(key=key, records=records),))
    made = replace(commit, files=files, n_records=records, intent=promised.id(chain, 61))
    world.store.put(chain.intent(61), promised.to_bytes())
    world.store.put(chain.commit(61), made.to_bytes())
    world.store.put(key, body, metadata={"sha256": files[0].sha256})
    return key


def offsets_of(commit: Commit) -> list[int]:
    (file,) = commit.files
    assert file.first is not None
    assert file.last is not None
    return list(range(file.first, file.last + 1))


def test_the_same_records_written_otherwise_are_right(world: ChainHarness) -> None:
    offsets = offsets_of(world.commits("raw")[1])
    store_instead(world, written(world, VERBATIM, offsets), len(offsets))
    assert faults(world.audit(DEEP)) == []


@pytest.mark.parametrize(
    ("change", "meaning"),
    [
        (lambda offsets: [*offsets[:5], offsets[6], offsets[5], *offsets[7:]], "is not in ascending order"),
        (lambda offsets: [*offsets[:5], offsets[5], offsets[5], *offsets[7:]], "is not in ascending order"),
        (lambda offsets: [*offsets[:-1], 122], "the offset 122 of its record 59 is outside the cut"),
        (lambda offsets: [60, *offsets[1:]], "the offset 60 of its record 0 is outside the cut"),
        (lambda offsets: offsets[:-1], "it has 59 records, its commit says 60"),
        (lambda offsets: [*offsets[:-1], offsets[-1] + 1], "its offsets go from 61 to 121, its commit says 61 to 120"),
    ],
)
def test_records_that_are_not_as_committed_are_wrong(world: ChainHarness, change: object, meaning: str) -> None:
    offsets: list[int] = change(offsets_of(world.commits("raw")[1]))  # type: ignore[operator]
    key = store_instead(world, written(world, VERBATIM, offsets), 60)
    assert world.audit().clean
    (finding,) = world.audit(DEEP).findings
    assert (finding.fault, finding.key, finding.first, finding.until) == ("object wrong", key, 61, 122)
    assert meaning in finding.meaning
    assert finding.next_command == f"lyrebird lake cat {key}"


def test_an_object_that_was_stored_damaged_is_wrong(world: ChainHarness) -> None:
    offsets = offsets_of(world.commits("raw")[1])
    store_instead(world, written(world, VERBATIM, offsets)[:-7], 60)
    (finding,) = world.audit(DEEP).findings
    assert (finding.fault, "cannot be read" in finding.meaning) == ("object wrong", True)


def test_a_format_without_offsets_is_counted(world: ChainHarness) -> None:
    lines = JsonLines(JsonLinesOptions(content="payload"))
    offsets = offsets_of(world.commits("raw")[1])
    key = str(world.chain("raw").data(("offset=0",), 61, ".jsonl"))
    store_instead(world, written(world, lines, offsets), 60, key=key)
    assert faults(world.audit(DEEP)) == []
    store_instead(world, written(world, lines, offsets[:-2]), 60)
    (finding,) = world.audit(DEEP).findings
    assert finding.meaning.startswith("it has 58 records, its commit says 60")


def test_a_record_in_two_objects_of_its_cut_is_found_twice(world: ChainHarness) -> None:
    commit = world.commits("raw")[1]
    chain, body = world.chain("raw"), written(world, VERBATIM, [70, 71])
    intent = Intent.parse(world.body(chain.intent(61)), chain, 61)
    key = str(chain.data(("offset=1",), 61, ""))
    file = commit.files[0]._replace(
        key=key, bytes=len(body), sha256=hashlib.sha256(body).hexdigest(), records=2, first=70, last=71
    )
    planned = intent.files[0]._replace(key=key, records=2, first=70, last=71)
    promised = replace(intent, files=(*intent.files, planned))
    made = replace(commit, files=(*commit.files, file), n_records=commit.n_records + 2, intent=promised.id(chain, 61))
    world.store.put(key, body)
    world.store.put(chain.intent(61), promised.to_bytes())
    world.store.put(chain.commit(61), made.to_bytes())
    found = world.audit(DEEP).findings
    assert [(each.fault, each.first, each.until) for each in found] == [
        ("read twice", 70, 71),
        ("counts differ", 61, 122),
    ]


def test_what_the_log_lost_is_told_and_no_fault(world: ChainHarness) -> None:
    chain, commit = world.chain(), world.commits()[1]
    kept = replace(
        commit,
        n_records=commit.n_records - 3,
        filtered=commit.filtered - 3,
        gaps=(Gap(61, 65, "lost"),),
    )
    world.store.put(chain.commit(61), kept.to_bytes())
    for options in (ChainAuditOptions(), DEEP):
        report = world.audit(options)
        assert faults(report) == []
        assert report.groups[1].lost == 4
        assert "    offsets lost to the log's retention before they were stored: 4" in report.lines()


def test_a_commit_and_an_intent_that_both_say_nothing_are_one_finding(world: ChainHarness) -> None:
    chain = world.chain("raw", 1)
    for first in (0, 61):
        world.store.put(chain.commit(first), b"x")
        world.store.put(chain.intent(first), b"x")
    found = world.audit(DEEP).findings
    assert [(each.fault, each.first, each.until) for each in found if each.fault == "chain unreadable"] == [
        ("chain unreadable", 0, None),
        ("chain unreadable", 61, None),
    ]


def test_an_intent_that_cannot_be_read_is_broken_and_its_cut_is_judged_by_its_commit(world: ChainHarness) -> None:
    chain = world.chain("raw", 1)
    world.store.put(chain.intent(0), b"x")
    assert world.audit().clean
    (finding,) = world.audit(DEEP).findings
    assert (finding.fault, finding.key) == ("intent broken", chain.intent(0))
    assert "cannot be read" in finding.meaning


def test_foreign_names_among_summaries_and_commits_are_named_and_others_left_alone(world: ChainHarness) -> None:
    chain = world.chain("raw")
    strange = [f"{chain.summaries}old", f"{chain}/1.commit", f"{chain}/{0:020d}.tmp"]
    for key in (*strange, f"{chain.of}/notes", f"{chain.of}/1/hint/0", f"{chain.of}/1/other/0"):
        world.store.put(key, b"x")
    found = world.audit().findings
    assert {each.key for each in found} == set(strange)
    assert {each.fault for each in found} == {"chain unreadable"}


class Sealed(MemoryStore):
    """Encrypts: an ETag is no MD5 of what was put."""

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        for info in super().list(prefix, start_after=start_after):
            etag = hashlib.md5(info.etag.encode(), usedforsecurity=False).hexdigest()
            yield ObjectInfo(info.key, info.size_bytes, f'"{etag}"', None, info.modified_us)


def test_a_store_whose_etags_are_no_digests_costs_one_reading_more(
    world: ChainHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_module, "SUMMARY_COMMITS", 2)
    world.audit()
    store = Sealed(world.clock)
    store._objects = world.store._objects
    asked: list[str] = []
    get = store.get

    def counted(key: str) -> StoredObject | None:
        asked.append(key)
        return get(key)

    monkeypatch.setattr(store, "get", counted)
    assert audit_chain(store, GROUPS, "e", 0).clean
    commits = [key for key in asked if key.endswith(".commit")]
    # Of the first summary of each chain, to see that ETags say nothing; then all, as nothing else tells.
    assert len(commits) == 8


def test_summaries_spare_the_reading_of_commits(world: ChainHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_module, "SUMMARY_COMMITS", 2)
    world.audit()
    asked: list[str] = []
    get = world.store.get

    def counted(key: str) -> StoredObject | None:
        asked.append(key)
        return get(key)

    monkeypatch.setattr(world.store, "get", counted)
    assert world.audit().clean
    assert [key for key in asked if key.endswith(".commit")] == []


def test_who_may_only_read_can_audit(world: ChainHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise Terminal("the object store refuses this")

    monkeypatch.setattr(chain_module, "SUMMARY_COMMITS", 2)
    monkeypatch.setattr(world.store, "put_if_absent", refused)
    report = world.audit()
    assert report.clean
    assert [(group.summaries, group.summaries_due) for group in report.groups] == [(0, 2), (0, 2)]
