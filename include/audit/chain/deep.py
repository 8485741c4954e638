"""Reads every object of a chain: its bytes, its records, their offsets; and every intent against its commit."""

from __future__ import annotations

import bisect
import hashlib
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from include.audit.chain.commits import UnreadableCommit
from include.audit.chain.compare import Segment
from include.audit.chain.finding import Findings
from include.audit.chain.listing import ProgressListener
from include.errors import Terminal
from include.lake.definition import FormatDefinition
from include.lake.inspect.object_reader import Contents, open_contents
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.cut import Commit, CutObject, Intent
from include.store.object_store import ObjectStore

__all__ = ["DeepCheck", "read_objects"]


@dataclass
class DeepCheck:
    """What was read. `segments` are the cuts, divided at the marks that were asked for where offsets could be read."""

    objects: int = 0
    bytes: int = 0
    segments: list[Segment] = field(default_factory=list)


def read_objects(
    store: ObjectStore,
    chain: ChainKey,
    commits: Iterable[Commit | UnreadableCommit],
    findings: Findings,
    progress: ProgressListener,
    *,
    reads: Callable[[int], bool],
    known: Collection[str],
    declared: FormatDefinition | None,
    marks: Sequence[int] = (),
) -> DeepCheck:
    """Read all that the chain's commits list; one object in memory at a time.

    Args:
        store: where they are.
        chain: whose they are.
        commits: all of the chain.
        findings: takes what is wrong.
        progress: hears of bytes.
        reads: whether readers find the cut at an offset here; objects of others may be gone.
        known: keys that there is a finding of already.
        declared: how lines of text are to be read.
        marks: sorted offsets up to which records are to be counted.
    """
    check = DeepCheck()
    for commit in commits:
        if isinstance(commit, UnreadableCommit):
            continue
        _check_intent(store, chain, commit, findings)
        object_offsets: list[array[int]] = []
        told = commit.filtered == 0
        for file in commit.files:
            progress.advance(file.bytes)
            stored = store.get(file.key) if file.key not in known else None
            offsets = None
            if stored is not None:
                check.objects += 1
                check.bytes += len(stored.body)
                offsets = _check_object(chain, commit, file, stored.body, findings, declared)
            elif file.key not in known and reads(commit.first):
                findings.add(
                    "object missing",
                    chain,
                    "is not there, and a commit lists it: its records are in no other object of the group",
                    first=commit.first,
                    key=file.key,
                )
            if offsets is None:
                told = False
            else:
                object_offsets.append(offsets)
        merged = sorted(offset for offsets in object_offsets for offset in offsets)
        _check_apart(chain, commit, merged, findings)
        check.segments += _divided(commit, merged, marks) if told else [_whole(commit)]
    return check


def _check_intent(store: ObjectStore, chain: ChainKey, commit: Commit, findings: Findings) -> None:
    key = chain.intent(commit.first)
    stored = store.get(key)
    if stored is None:
        return
    try:
        intent = Intent.parse(stored.body, chain, commit.first)
    except Terminal as error:
        why = f"cannot be read: {error.details.get('reason', error.message)}"
    else:
        same = (intent.end, intent.id(chain, commit.first)) == (commit.next, commit.intent)
        if same and [file.key for file in intent.files] == [file.key for file in commit.files]:
            return
        why = "promises another cut than its commit says"
    findings.add("intent broken", chain, why, first=commit.first, until=commit.next, key=key)


def _check_object(
    chain: ChainKey,
    commit: Commit,
    file: CutObject,
    body: bytes,
    findings: Findings,
    declared: FormatDefinition | None,
) -> array[int] | None:
    """Its offsets, where its format keeps them and nothing is wrong with it."""
    sha = hashlib.sha256(body).hexdigest()
    if sha != file.sha256:
        findings.add(
            "object changed",
            chain,
            f"has SHA-256 {sha[:16]}…, its commit says {file.sha256[:16]}…: bytes were changed after they were stored",
            first=commit.first,
            until=commit.next,
            key=file.key,
        )
        return None
    try:
        wrong, offsets = _records(commit, file, open_contents(body, file.key, declared))
    except Terminal as error:
        wrong, offsets = f"its records cannot be read: {error.message}", None
    if wrong:
        findings.add(
            "object wrong",
            chain,
            f"{wrong}, though its bytes are those that were committed",
            first=commit.first,
            until=commit.next,
            key=file.key,
            run="lyrebird lake cat {key}",
        )
        return None
    return offsets


def _records(commit: Commit, file: CutObject, contents: Contents) -> tuple[str, array[int] | None]:
    """What is wrong, "" for nothing, and the offsets."""
    offsets, count, before = array("q"), 0, commit.first - 1
    for message in contents.messages:
        count += 1
        if not contents.offsets:
            continue
        if not before < message.offset < commit.next:
            where = (
                "is not in ascending order" if commit.first <= message.offset < commit.next else "is outside the cut"
            )
            return f"the offset {message.offset} of its record {count - 1} {where}", None
        before = message.offset
        offsets.append(before)
    if count != file.records:
        return f"it has {count} records, its commit says {file.records}", None
    if not contents.offsets:
        return "", None
    ends = (offsets[0], offsets[-1]) if offsets else (None, None)
    if ends != (file.first, file.last):
        return f"its offsets go from {ends[0]} to {ends[1]}, its commit says {file.first} to {file.last}", None
    return "", offsets


def _check_apart(chain: ChainKey, commit: Commit, merged: Sequence[int], findings: Findings) -> None:
    twice = next((one for one, other in pairwise(merged) if one == other), None)
    if twice is not None:
        findings.add(
            "read twice",
            chain,
            "a record is in two objects of its cut",
            first=twice,
            until=twice + 1,
            key=chain.commit(commit.first),
        )


def _whole(commit: Commit) -> Segment:
    return Segment(commit.first, commit.next, None if commit.gaps else commit.n_records)


def _divided(commit: Commit, offsets: Sequence[int], marks: Sequence[int]) -> Iterator[Segment]:
    if commit.gaps:
        yield _whole(commit)
        return
    inside = marks[bisect.bisect_right(marks, commit.first) : bisect.bisect_left(marks, commit.next)]
    first, at = commit.first, 0
    for until in (*inside, commit.next):
        end = bisect.bisect_left(offsets, until, at)
        yield Segment(first, until, end - at)
        first, at = until, end
