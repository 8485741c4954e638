"""The commits of one chain for an audit: from summaries as far as these agree with what was listed, else one by one.

A listing tells size and ETag of each commit, so a summary's lines are held against the objects without reading those:
by MD5 where the store's ETags are that, else by reading them. A commit that cannot be read is bridged by its intent.
"""

from __future__ import annotations

import bisect
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import orjson

from include.audit.chain.finding import Findings
from include.audit.chain.listing import ChainFolder, ProgressListener
from include.errors import Terminal
from include.lake.backfill.expiry import Eraser
from include.lake.protocol import chain as chains
from include.lake.protocol.chain import Chain
from include.lake.protocol.cut import Commit, Intent
from include.store.object_store import ObjectInfo, ObjectStore

__all__ = ["CommitReader", "UnreadableCommit"]

_AT_ONCE: Final = 16
_MD5: Final = re.compile(r'"[0-9a-f]{32}"')
_MEND: Final = "lyrebird audit chain {topic} --group {group} --repair"
_COMPARE: Final = "lyrebird audit chain {topic} --group {group} --deep"


class UnreadableCommit(NamedTuple):
    """A commit that says nothing. `next` and `keys` as its intent has them; None and () where that says nothing."""

    first: int
    next: int | None
    keys: tuple[str, ...]


class CommitReader:
    """Reads one chain once.

    With an eraser a wrong summary is written anew, and a commit that only a summary has is put back as that has it.
    Where both are there and differ nobody knows which of them was changed: a person has to say.

    Args:
        store: the bucket of the lake.
        folder: what was listed of the chain; a summary that must not be believed is taken out of it.
        findings: gets what is wrong with single objects.
        progress: hears how many commits were read.
        summed: whether the chain is one that has summaries; they are made where they are missing.
        eraser: deletes what is written anew; None: what is wrong is noted, and stays.
        kept_from: offset; what ends up to there is forgotten, so nobody misses its commits.
    """

    def __init__(
        self,
        store: ObjectStore,
        folder: ChainFolder,
        findings: Findings,
        progress: ProgressListener,
        *,
        summed: bool,
        eraser: Eraser | None = None,
        kept_from: int = 0,
    ) -> None:
        self._store, self._folder, self._findings, self._progress = store, folder, findings, progress
        self._summed, self._eraser, self._kept_from = summed, eraser, kept_from
        self._etags_tell = True
        self.made = 0
        self.unwritten = 0
        self.mended = 0

    def read(self) -> Iterator[Commit | UnreadableCommit]:
        """All, by `first`; notes what is wrong with single objects, and nothing of how commits follow each other."""
        found = self._read()
        return self._summing(found) if self._summed else found

    def _read(self) -> Iterator[Commit | UnreadableCommit]:
        firsts, index, count, last = sorted(self._folder.commits), 0, 0, -1
        for summary in sorted(self._folder.summaries):
            alone = firsts[index : bisect.bisect_left(firsts, summary, index)]
            yield from self._one_by_one(alone)
            index += len(alone)
            count += len(alone)
            held = self._held(summary, misplaced=summary <= last or bool(count % chains.SUMMARY_COMMITS))
            if held is None:
                continue
            last = held[-1].first
            inside = firsts[index : bisect.bisect_right(firsts, last, index)]
            index += len(inside)
            known = {commit.first for commit in held}
            commits = [*held, *self._one_by_one([first for first in inside if first not in known])]
            yield from sorted(commits, key=lambda each: each.first)
            count += len(commits)
            self._progress.advance(len(held))
        yield from self._one_by_one(firsts[index:])

    def _held(self, summary: int, *, misplaced: bool) -> list[Commit] | None:
        """The commits of a summary; None, and it is noted, where it must not be believed."""
        chain = self._folder.key
        stored = self._store.get(chain.summary(summary))
        if stored is None:
            return None
        wrong = "does not begin where a summary should" if misplaced else ""
        commits: list[Commit] = []
        lines = stored.body.split(b"\n")
        if not wrong and len(lines) != chains.SUMMARY_COMMITS:
            wrong = f"has {len(lines)} commits, not {chains.SUMMARY_COMMITS}"
        end = summary
        for line in () if wrong else lines:
            try:
                commit = Commit.parse(line, chain, int(orjson.loads(line)["first"]))
            except (KeyError, TypeError, ValueError, Terminal) as error:
                wrong = f"has a commit that cannot be read: {_reason(error)}"
                break
            if commit.first != end:
                wrong = f"has a commit of the cut at {commit.first} where one at {end} belongs"
                break
            end = commit.next
            commits.append(commit)
        other = (
            None if wrong else self._disagrees({each.first: line for each, line in zip(commits, lines, strict=True)})
        )
        if other is not None:
            wrong = f"has another commit of the cut at {other} than the chain"
        if wrong:
            self._wrong(summary, wrong, differs=other is not None)
            return None
        self._put_back([commit for commit in commits if commit.first not in self._folder.commits])
        return commits

    def _disagrees(self, lines: Mapping[int, bytes]) -> int | None:
        """The first cut whose commit's object, where there is one, holds something else."""
        there = ((first, self._folder.commits[first]) for first in lines if first in self._folder.commits)
        doubtful = [first for first, info in there if not self._same(info, lines[first])]
        for first, body in self._bodies(doubtful):
            if body != lines[first]:
                return first
            # The same bytes under another ETag than their MD5: encryption, say.
            self._etags_tell = False
        return None

    def _same(self, info: ObjectInfo, line: bytes) -> bool:
        if not self._etags_tell or len(line) != info.size_bytes or not _MD5.fullmatch(info.etag):
            return False
        return info.etag[1:-1] == hashlib.md5(line, usedforsecurity=False).hexdigest()

    def _wrong(self, summary: int, why: str, *, differs: bool) -> None:
        chain = self._folder.key
        key = chain.summary(summary)
        if self._eraser is not None and not differs:
            self._eraser.delete(key)
            self.mended += 1
            return
        del self._folder.summaries[summary]
        run = _COMPARE if differs else _MEND
        self._findings.add("summary wrong", chain, f"{why}; its commits were read instead", key=key, run=run)

    def _put_back(self, commits: Sequence[Commit]) -> None:
        chain = self._folder.key
        for commit in commits:
            if commit.next <= self._kept_from:
                continue
            if self._eraser is not None:
                self._store.put_if_absent(chain.commit(commit.first), commit.to_bytes())
                self.mended += 1
                continue
            self._findings.add(
                "commit missing",
                chain,
                "is gone, and a summary still has it: readers and writers that look for it do not find it",
                first=commit.first,
                until=commit.next,
                key=chain.commit(commit.first),
                run=_MEND,
            )

    def _one_by_one(self, firsts: Sequence[int]) -> Iterator[Commit | UnreadableCommit]:
        for number, (first, body) in enumerate(self._bodies(firsts), 1):
            yield self._parsed(first, body)
            if not number % 100:
                self._progress.advance(100)

    def _bodies(self, firsts: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Commits as they are now, empty where one went; several are asked for at once."""

        def body(first: int) -> bytes:
            stored = self._store.get(self._folder.key.commit(first))
            return stored.body if stored else b""

        if not firsts:
            return
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(firsts), 1000):
                some = firsts[start : start + 1000]
                yield from zip(some, pool.map(body, some), strict=True)

    def _parsed(self, first: int, body: bytes) -> Commit | UnreadableCommit:
        chain = self._folder.key
        try:
            return Commit.parse(body, chain, first)
        except Terminal as error:
            why = _reason(error) if body else "it went while it was looked at"
        intent = self._intent(first)
        end = intent.end if intent else None
        self._findings.add(
            "chain unreadable",
            chain,
            f"is no commit: {why}; its cut cannot be judged, and readers stop there",
            first=first,
            until=end,
            key=chain.commit(first),
        )
        return UnreadableCommit(first, end, tuple(file.key for file in intent.files) if intent else ())

    def _intent(self, first: int) -> Intent | None:
        stored = self._store.get(self._folder.key.intent(first))
        try:
            return Intent.parse(stored.body, self._folder.key, first) if stored else None
        except Terminal:
            return None

    def _summing(self, found: Iterator[Commit | UnreadableCommit]) -> Iterator[Commit | UnreadableCommit]:
        """Writes each summary that is due and missing, of whole chains only: what follows a fault waits."""
        block: list[Commit] = []
        whole, end = True, None
        for commit in found:
            yield commit
            next_ = commit.next
            whole = whole and isinstance(commit, Commit) and end in (None, commit.first)
            whole = whole and (commit.first in self._folder.commits or self._eraser is not None)
            end = next_
            if not whole or not isinstance(commit, Commit):
                continue
            block.append(commit)
            if len(block) == chains.SUMMARY_COMMITS:
                self._sum_up(block)
                block = []

    def _sum_up(self, block: Sequence[Commit]) -> None:
        first = block[0].first
        if first in self._folder.summaries and self._eraser is None:
            return
        if self._store.head(self._folder.key.summary(first)) is None:
            try:
                Chain(self._store, self._folder.key).put_summary(block)
            except Terminal:
                # Who may only read can audit, too: it takes longer each time.
                self.unwritten += 1
            else:
                self.made += 1


def _reason(error: Exception) -> str:
    if isinstance(error, Terminal):
        return str(error.details.get("reason", error.message))
    return repr(error)
