"""One chain over a real object store: carries the protocol's steps out, finds the head, reads the commits."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import orjson

from include.errors import BackPressure, Terminal, Transient
from include.lake.protocol.canonical import offset, unreadable
from include.lake.protocol.chain_key import ChainKey, CutKey, parse_cut_key
from include.lake.protocol.commit_protocol import Head, PlannedEnd, advance, find_head, write_cut
from include.lake.protocol.cut import Commit
from include.lake.protocol.object_key import digits
from include.lake.protocol.runner import AT_ONCE, CutReader, OnCommit, Pause, Runner, UploadConcurrency
from include.store.object_store import ObjectStore

__all__ = ["SUMMARY_COMMITS", "Chain", "give_up"]

SUMMARY_COMMITS: Final = 1000
"""Commits in a summary object."""

# A page of a listing holds 1,000 keys, two of each cut.
_HINT_COMMITS: Final = 400
_AT_ONCE: Final = 8
_MOST_AHEAD: Final = 256


def give_up(_attempt: int, error: Transient | BackPressure) -> None:
    """A `Pause` without patience."""
    raise error


class Chain:
    """The chain of one Kafka partition in one generation. One thread at a time; any number of processes.

    A run that ended with an error may be started again, here or elsewhere: it goes on where the bucket stands.

    Args:
        store: the bucket of the lake.
        key: of the chain.
        start: offset where it begins when nothing is committed: from its entry in the pointer.
        last: the `first` of any of its commits, where one is known; those before it need not be listed then.
        pause: decides how long to go on with a store that does not answer; without it the first such error is raised.
        sending: how files go up.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: ChainKey,
        *,
        start: int = 0,
        last: int | None = None,
        pause: Pause = give_up,
        sending: UploadConcurrency = AT_ONCE,
    ) -> None:
        self.key = key
        self._store = store
        self.start = start
        self._runner = Runner(store, pause, sending)
        self._last = last

    def head(self) -> Head:
        """Where it ends now; leaves a hint for others when many commits had to be listed."""
        known = self._hint() if self._last is None else self._last
        head = self._runner.run(find_head(self.key, self.start, known))
        if head.last is not None and head.listed > _HINT_COMMITS:
            self._runner.ask(lambda: self._store.put(self.key.hint, b'{"first":%d}' % (head.last or 0)))
        self._last = head.last
        return head

    def advance(self, plan: PlannedEnd, reader: CutReader, on_commit: OnCommit) -> Head:
        """Carry it to `plan.until`; tells of each cut that is whole. Nothing when its head is beyond."""
        hint = self._hint() if self._last is None else self._last
        steps = advance(self.key, self.start, hint, plan, known=self._last is not None)
        head = self._runner.run(steps, reader, on_commit)
        self._last = head.last
        return head

    def write_cut(self, first: int, plan: PlannedEnd, reader: CutReader) -> Commit:
        """Make the cut at `first` whole, wherever the head is: for a backfill, with an exact plan."""
        return self._runner.run(write_cut(self.key, first, plan), reader)

    def commit(self, first: int) -> Commit | None:
        """The commit of the cut at `first`."""
        found = self._runner.ask(lambda: self._store.get(self.key.commit(first)))
        return Commit.parse(found.body, self.key, first) if found else None

    def commits(self, since: int = 0, *, contiguous: bool = True) -> Iterator[Commit]:
        """Commits that end after `since`, by `first`, a thousand at a time where summaries are.

        `Terminal` where one does not begin where the one before it ends; a backfill's chain has such places and is
        read with `contiguous` False.
        """
        before: Commit | None = None
        for commit in self._commits(since):
            if commit.next <= since:
                continue
            hole = commit.first != before.next if before else commit.first > max(since, self.start)
            if contiguous and hole:
                raise self._hole(commit.first, before.next if before else max(since, self.start))
            before = commit
            yield commit

    def summarise(self) -> int:
        """Write each summary that is due or missing; gives how many. Harmless beside others that do the same."""
        made, cursor = 0, -1
        for summary in [*self._summaries(), None]:
            firsts = self._firsts(cursor, summary)
            due = len(firsts) // SUMMARY_COMMITS
            for start in range(0, due * SUMMARY_COMMITS, SUMMARY_COMMITS):
                self._write_summary(firsts[start : start + SUMMARY_COMMITS])
                made += 1
            if summary is not None:
                if len(firsts) % SUMMARY_COMMITS:
                    raise unreadable(self.key.summary(summary), "the one before it does not end where it begins")
                cursor = self._summary(summary)[-1].first
        return made

    def put_summary(self, commits: Sequence[Commit]) -> None:
        """Write the summary of these, unless one stands: as many as belong in one, and none left out between them."""
        end = commits[0].first
        for commit in commits:
            if commit.first != end:
                raise self._hole(commit.first, end)
            end = commit.next
        body = b"\n".join(commit.to_bytes() for commit in commits)
        self._runner.ask(lambda: self._store.put_if_absent(self.key.summary(commits[0].first), body))

    def _write_summary(self, firsts: list[int]) -> None:
        self.put_summary(list(self.each(firsts)))

    def _commits(self, since: int) -> Iterator[Commit]:
        """All that may end after `since`, and perhaps some before."""
        summaries = self._summaries()
        kept = summaries[max(0, bisect.bisect_right(summaries, since) - 1) :]
        cursor = kept[0] - 1 if kept and kept[0] <= since else -1
        for summary in [*kept, None]:
            firsts = self._firsts(cursor, summary)
            yield from self.each(firsts[max(0, bisect.bisect_right(firsts, since) - 1) :])
            if summary is not None:
                found = self._summary(summary)
                yield from found
                cursor = found[-1].first

    def each(self, firsts: Sequence[int]) -> Iterator[Commit]:
        """Their commits, more and more of them asked for ahead: whoever wants the first few waits for no others."""
        begin, ahead = 0, 1
        while some := firsts[begin : begin + ahead]:
            if len(some) < _AT_ONCE:
                found = list(map(self.commit, some))
            else:
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    found = list(pool.map(self.commit, some))
            for first, commit in zip(some, found, strict=True):
                if commit is None:
                    raise self._hole(first, first)
                yield commit
            begin, ahead = begin + ahead, min(2 * ahead, _MOST_AHEAD)

    def _firsts(self, after: int, before: int | None) -> list[int]:
        """Of the commits with after < first < before, by listing."""
        start_after = f"{self.key}/{digits(after)}.z" if after >= 0 else ""

        def listed() -> Iterator[int]:
            for info in self._store.list(f"{self.key}/", start_after=start_after):
                first, kind = parse_cut_key(info.key, self.key)
                if before is not None and first >= before:
                    return
                if kind == "commit":
                    yield first

        return self._runner.ask(lambda: list(listed()))

    def _hole(self, first: int, after: int) -> Terminal:
        return Terminal(
            "a hole in the chain",
            key=self.key.commit(first),
            after=after,
            fix="Run `lyrebird audit chain` on the topic.",
        )

    def _summaries(self) -> list[int]:
        keys = self._runner.ask(lambda: [info.key for info in self._store.list(self.key.summaries)])
        return [CutKey.parse(key, self.key.of.prefix).first for key in keys]

    def _summary(self, first: int) -> list[Commit]:
        key = self.key.summary(first)
        found = self._runner.ask(lambda: self._store.get(key))
        bodies = found.body.split(b"\n") if found else []
        if len(bodies) != SUMMARY_COMMITS:
            raise unreadable(key, f"it has {len(bodies)} commits, not {SUMMARY_COMMITS}")
        try:
            firsts = [int(orjson.loads(body)["first"]) for body in bodies]
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(key, repr(error)) from error
        return [Commit.parse(body, self.key, at) for body, at in zip(bodies, firsts, strict=True)]

    def _hint(self) -> int | None:
        """Advice only: whatever cannot be read is none."""
        found = self._runner.ask(lambda: self._store.get(self.key.hint))
        try:
            return offset(orjson.loads(found.body)["first"]) if found else None
        except (KeyError, TypeError, ValueError):
            return None
