"""`CutReader` over a log: reads a range, and writes the local files of a cut by the logic that holds for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from include.errors import Terminal
from include.lake.formats.port import Format
from include.lake.message import Message
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.cut import Gap
from include.lake.protocol.log_checks import check_epoch, check_log, gap_at
from include.lake.protocol.steps import LocalCut, ReadRange
from include.lake.reading.log_ranges import LogRanges, MessageBatch
from include.lake.writing.cut_files import CutFiles, Sorter

__all__ = ["CutLogic", "CutLogics", "LogCuts"]


@dataclass(frozen=True, slots=True)
class CutLogic:
    """How a cut's records become files. `config` is the hash of all that decides on them.

    `sorter` gives what tells the records of the cut at `first` apart; `kept` and `aside` write what is kept, refused.
    """

    config: str
    sorter: Callable[[int], Sorter]
    kept: Format
    aside: Format


class CutLogics(Protocol):
    """All logics of a topic that the deployment declares."""

    def holding(self, partition: int, first: int, timestamp_ms: int) -> CutLogic:
        """The one for the cut at `first`, whose first record has this Kafka timestamp (-1: it has none)."""

    def border(self, partition: int, first: int) -> int | None:
        """The least offset after `first` at which a cut has to end; None without one."""

    def of(self, config: str) -> CutLogic:
        """The one of that hash; `Terminal` when the deployment has it no more."""


class LogCuts:
    """The cuts of one chain, one after the other.

    Args:
        log: where messages are read.
        chain: whose cuts they are.
        logics: all of the topic that the deployment declares.
        folder: where files are written; its own: what lies there is removed with each cut.
        max_bytes: a cut that nobody promised ends where its files have so many, a batch of the log's client more at
            most.
        max_folders: such a cut ends before the message that would open a folder beyond so many.
    """

    def __init__(
        self, log: LogRanges, chain: ChainKey, logics: CutLogics, folder: Path, max_bytes: int, max_folders: int
    ) -> None:
        self._log, self._chain, self._logics = log, chain, logics
        self._folder, self._max_bytes, self._max_folders = folder, max_bytes, max_folders
        self._stream = _Stream(log, chain, 0, 0)

    def read(self, wanted: ReadRange) -> LocalCut:
        """What the log no longer has is a gap of the cut, also when it goes while it is read."""
        chain, first = self._chain, wanted.first
        self._check_topic()
        promised = bool(wanted.config)
        until = wanted.until if wanted.exact or promised else self._border(wanted)
        stream = self._stream_of(first, until)
        stream.first = first
        logic = (
            self._logics.of(wanted.config)
            if promised
            else self._logics.holding(chain.partition, first, stream.timestamp_ms)
        )
        self.clear()
        self._folder.mkdir(parents=True)
        files = CutFiles(self._folder, chain, first, logic.sorter(first), logic.kept, logic.aside)
        gaps: list[Gap] = []
        epoch = wanted.epoch
        while True:
            known_epoch = stream.leader_epoch
            messages = stream.take()
            gaps += stream.lost()
            if messages is None:
                break
            if epoch is not None and (stream.leader_epoch or 0) > epoch:
                # Another leader: what it had of the log is in doubt, once.
                check_epoch(chain, first, epoch, self._log.epoch_before(chain.of.topic, chain.partition, first))
                epoch = None
            if wanted.exact or promised:
                files.write(messages)
                continue
            taken = files.write(messages, self._max_folders)
            if taken < len(messages):
                if known_epoch != stream.leader_epoch:
                    # The leader may have changed in the midst of them, and a commit tells that of its last record.
                    known_epoch = self._log.epoch_before(chain.of.topic, chain.partition, messages[taken].offset)
                stream.give_back(messages[taken:], known_epoch)
            if taken < len(messages) or files.bytes_so_far >= self._max_bytes:
                until = stream.at
                break
        # Again: what was read in between came from this one, as no topic gets another's id.
        self._check_topic()
        return LocalCut(
            until,
            files.close(wanted.keys),
            files.filtered,
            logic.config,
            files.versions,
            tuple(gaps),
            stream.leader_epoch,
            files.min_ts,
            files.max_ts,
        )

    def _check_topic(self) -> None:
        topic = self._chain.of
        topic_id = self._log.topic_id(topic.topic)
        if topic_id != topic.topic_id:
            raise Terminal(
                "the topic was deleted or made anew while it was being stored",
                topic=topic.topic,
                topic_id=topic.topic_id,
                now=topic_id or None,
                fix="Nothing to do: the new one has a chain of its own; what was not stored of the old one is lost.",
            )

    def clear(self) -> None:
        """Remove the local files."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _border(self, wanted: ReadRange) -> int:
        border = self._logics.border(self._chain.partition, wanted.first)
        return wanted.until if border is None else min(wanted.until, border)

    def _stream_of(self, first: int, until: int) -> _Stream:
        """What was begun for the cut before, if it goes on right there."""
        if (self._stream.at, self._stream.until) != (first, until):
            self._stream = _Stream(self._log, self._chain, first, until)
        return self._stream


class _Stream:
    """The messages of [at, until), which may be taken for one cut and the next.

    `at` moves behind what was taken; `first` is where the cut begins that it is taken for.
    """

    def __init__(self, log: LogRanges, chain: ChainKey, at: int, until: int) -> None:
        self.first, self.at, self.until = at, at, until
        self.leader_epoch: int | None = None
        self._log, self._chain = log, chain
        self._place = chain.of.topic, chain.partition
        self._next = at
        self._batches: Iterator[MessageBatch] | None = None
        self._ahead: MessageBatch | None = None
        self._lost: list[Gap] = []

    @property
    def timestamp_ms(self) -> int:
        """Of the next record; -1 without one."""
        if self._ahead is None:
            self._ahead = self._read()
        return -1 if self._ahead is None else self._ahead.messages[0].timestamp_ms

    def take(self) -> list[Message] | None:
        """The next messages; None when all are taken."""
        batch, self._ahead = self._ahead or self._read(), None
        if batch is None:
            self.at = self.until
            return None
        self.at, self.leader_epoch = batch.messages[-1].offset + 1, batch.leader_epoch
        return batch.messages

    def give_back(self, messages: list[Message], epoch: int | None) -> None:
        """The last of those that were taken, which another cut takes; `epoch` is that of the record before them."""
        self._ahead = MessageBatch(messages, self.leader_epoch)
        self.at, self.leader_epoch = messages[0].offset, epoch

    def lost(self) -> list[Gap]:
        """What the log no longer had, since the last call."""
        found, self._lost = self._lost, []
        return found

    def _read(self) -> MessageBatch | None:
        while True:
            if self._batches is None:
                begin, end = self._log.edges(*self._place)
                check_log(self._chain, self.until, end)
                self._pass_over(begin)
                self._batches = self._log.batches(*self._place, self._next, self.until)
            try:
                batch = next(self._batches, None)
            except Terminal:
                begin, _ = self._log.edges(*self._place)
                if begin <= self._next:
                    raise
                # Retention was faster: what is left is read from where the log begins now.
                self._batches = None
                continue
            if batch is not None:
                self._next = batch.messages[-1].offset + 1
            return batch

    def _pass_over(self, begin: int) -> None:
        gap = gap_at(self.first, self._next, self.until, begin)
        if gap is not None:
            self._lost.append(gap)
            self._next = gap.until
