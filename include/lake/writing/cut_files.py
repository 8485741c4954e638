"""The local files of one cut: messages told apart by a sorter, written by a format, refused ones set aside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast

from include.errors import Terminal
from include.lake.formats.port import FileIdentity, FileWriter, Format
from include.lake.message import Message
from include.lake.parsing.port import Batch
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.object_key import QUARANTINE
from include.lake.protocol.steps import LocalFile
from include.lake.writing.local_stream import LocalStream

__all__ = ["REFUSED_HEADER", "CutFiles", "Sorter", "whole"]

REFUSED_HEADER: Final = "lyrebird-refused"
"""Behind its own headers a refused record has this one, with the reason as text."""

_QUARANTINE: Final = (QUARANTINE,)

FolderNames = tuple[str, ...]


class Sorter(Protocol):
    """Says where messages go; `Parser.parse_all` is one."""

    def __call__(self, messages: Sequence[Message]) -> Batch:
        """By content and configuration alone, whatever messages came before."""


def whole(names: FolderNames) -> Sorter:
    """All messages into one folder, unseen: what a backup does."""
    return lambda messages: Batch(kept={names: list(messages)})


class CutFiles:
    """Writes the files of one cut.

    A message that the format cannot hold is refused, too. Records refused are written whole, with the reason in the
    header `REFUSED_HEADER`.

    Args:
        folder: where files are written; its own, and empty.
        chain: of the cut.
        first: the cut's first offset.
        sorter: says where messages go.
        kept: format of what is kept.
        aside: format of what is refused.
    """

    def __init__(self, folder: Path, chain: ChainKey, first: int, sorter: Sorter, kept: Format, aside: Format) -> None:
        self._folder, self._chain, self._first = folder, chain, first
        self._sorter, self._kept, self._aside = sorter, kept, aside
        self._files: dict[FolderNames, _File] = {}
        self.records = 0
        self.filtered = 0
        self.min_ts: int | None = None
        self.max_ts: int | None = None

    @property
    def bytes_so_far(self) -> int:
        """About how many bytes all files have."""
        return sum(file.writer.bytes_so_far for file in self._files.values())

    @property
    def versions(self) -> dict[str, str]:
        """Libraries whose version decides on bytes."""
        return {**self._aside.versions, **self._kept.versions} if _QUARANTINE in self._files else self._kept.versions

    def write(self, messages: Sequence[Message], most_folders: int | None = None) -> int:
        """Add messages, in the order of their offsets; how many of them were taken.

        The first one that would open a folder beyond `most_folders` (at least 1) and those behind it are not.
        """
        batch = self._sorter(messages)
        told = batch.filtered + len(batch.refused) + sum(map(len, batch.kept.values()))
        if told != len(messages):
            raise Terminal(
                "a parser lost records or made them up",
                topic=self._chain.of.topic,
                partition=self._chain.partition,
                first=messages[0].offset,
                got=told,
                allowed=len(messages),
                fix="Mend the parser: each record is kept, filtered or refused.",
            )
        folders, refused = self._placed(batch)
        if most_folders is not None:
            opening = [
                min(message.offset for message in alike) for names, alike in folders.items() if names not in self._files
            ]
            if refused and _QUARANTINE not in self._files:
                opening.append(refused[0][0])
            room = most_folders - len(self._files)
            if len(opening) > room:
                beyond = sorted(opening)[room]
                fit = [message for message in messages if message.offset < beyond]
                # Where a message goes depends on itself alone.
                return self.write(fit) if fit else 0
        times = [message.timestamp_ms for message in messages if message.timestamp_ms >= 0]
        self.min_ts, self.max_ts = _widened((self.min_ts, self.max_ts), times)
        self.records += len(messages)
        self.filtered += batch.filtered
        for names, alike in folders.items():
            self._file(names, self._kept).write(alike)
        if refused:
            # As they came: a parser may have replaced what the format then refused.
            raw = {message.offset: message for message in messages}
            marked = [_marked(raw[offset], why) for offset, why in refused]
            self._file(_QUARANTINE, self._aside).write(marked)
        return len(messages)

    def _placed(self, batch: Batch) -> tuple[dict[FolderNames, list[Message]], list[tuple[int, str]]]:
        """What each folder gets; offsets that parser or format refuse, ascending, with the reason."""
        refused = [(message.offset, str(why.details.get("reason", why.message))) for message, why in batch.refused]
        folders: dict[FolderNames, list[Message]] = {}
        for names, messages in batch.kept.items():
            reasons = list(map(self._kept.refuses, messages))
            if any(reasons):
                out = {m.offset: why for m, why in zip(messages, reasons, strict=True) if why}
                refused += out.items()
                messages = [message for message in messages if message.offset not in out]
            for below, alike in self._apart(messages).items():
                folders.setdefault((*names, *below), []).extend(alike)
        return folders, sorted(refused)

    def _apart(self, messages: list[Message]) -> dict[FolderNames, list[Message]]:
        """Those that may share a file."""
        if not messages:
            return {}
        every = list(map(self._kept.names, messages))
        if len(set(every)) == 1:
            return {every[0]: messages}
        found: dict[FolderNames, list[Message]] = {}
        for names, message in zip(every, messages, strict=True):
            found.setdefault(names, []).append(message)
        return found

    def _file(self, names: FolderNames, form: Format) -> _File:
        file = self._files.get(names)
        if file is None:
            key = str(self._chain.data(names, self._first, form.extension))
            path = self._folder / str(len(self._files))
            identity = FileIdentity(
                self._chain.of.topic, self._chain.of.topic_id, self._chain.partition, self._first, names
            )
            file = self._files[names] = _File(key, path, form, identity)
        return file

    def close(self, keys: Sequence[str] = ()) -> tuple[LocalFile, ...]:
        """Finish all files, sorted by key; each of `keys` has one, without records where none came for it."""
        for key in keys:
            names = self._chain.parse_data(key, self._first).names
            made = self._file(names, self._aside if names == _QUARANTINE else self._kept)
            if made.key != key:
                raise Terminal(
                    "a cut was begun with another format",
                    key=key,
                    got=made.key,
                    fix="Give this worker the configuration that began the cut, or go on under a new generation.",
                )
        return tuple(sorted(file.close() for file in self._files.values()))


class _File:
    """One of them, with what its commit says of it."""

    def __init__(self, key: str, path: Path, form: Format, identity: FileIdentity) -> None:
        self.key = key
        self._path = path
        self._stream = LocalStream(path)
        self.writer: FileWriter = form.open(cast(Any, self._stream), identity)
        self._first: int | None = None
        self._last: int | None = None
        self._times: tuple[int | None, int | None] = (None, None)

    def write(self, messages: Sequence[Message]) -> None:
        if self._first is None:
            self._first = messages[0].offset
        self._last = messages[-1].offset
        self._times = _widened(self._times, [each.timestamp_ms for each in messages if each.timestamp_ms >= 0])
        self.writer.write(messages)

    def close(self) -> LocalFile:
        closed = self.writer.close()
        self._stream.close()
        return LocalFile(
            self.key,
            str(self._path),
            closed.bytes,
            closed.sha256,
            closed.records,
            self._first,
            self._last,
            *self._times,
        )


def _widened(span: tuple[int | None, int | None], times: list[int]) -> tuple[int | None, int | None]:
    if not times:
        return span
    least, most = min(times), max(times)
    return (least if span[0] is None else min(least, span[0])), (most if span[1] is None else max(most, span[1]))


def _marked(message: Message, reason: str) -> Message:
    return message._replace(headers=(*message.headers, (REFUSED_HEADER, reason.encode("utf-8", "backslashreplace"))))
