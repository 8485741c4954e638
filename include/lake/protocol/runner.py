"""Carries the steps of the protocol out over an object store, with patience that its owner decides on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar

from include.errors import BackPressure, Terminal, Transient
from include.lake.protocol.cut import Commit
from include.lake.protocol.steps import (
    Action,
    CutCommitted,
    Get,
    Heads,
    ListAfter,
    LocalCut,
    ObjectSeen,
    PutBody,
    PutFile,
    PutFiles,
    PutOutcome,
    ReadRange,
    Steps,
)
from include.store.object_store import PART_BYTES, ObjectInfo, ObjectStore

__all__ = ["AT_ONCE", "CutReader", "OnCommit", "Pause", "Runner", "UploadConcurrency"]

Pause = Callable[[int, Transient | BackPressure], None]
"""Called when the store did not answer, with how often in a row, from 1 on: returns to try again, raises to give up.

Reads and writes are counted apart: a store that refuses every write may well answer the question what became of it.
"""

OnCommit = Callable[[Commit], None]

T = TypeVar("T")
U = TypeVar("U")


class CutReader(Protocol):
    """Where cuts come from: Kafka, or the objects of a backup."""

    def read(self, wanted: ReadRange) -> LocalCut:
        """Carry out the step; may block for as long as the range takes; errors end the run of the protocol."""


@dataclass(frozen=True, slots=True)
class UploadConcurrency:
    """How files go up: so many at once, in parts of so many bytes when they are bigger (all of that is in memory)."""

    at_once: int = 4
    part_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        if self.at_once < 1 or self.part_bytes < PART_BYTES:
            raise Terminal("no way to send files", got=repr(self), allowed=f"1 or more, parts of {PART_BYTES} bytes")


AT_ONCE: Final = UploadConcurrency()


class Runner:
    """Runs the protocol. `pause` may be called from several threads."""

    def __init__(self, store: ObjectStore, pause: Pause, sending: UploadConcurrency = AT_ONCE) -> None:
        self._store = store
        self._pause = pause
        self._sending = sending
        self._unanswered = {"read": 0, "write": 0}

    def run(self, steps: Steps[T], reader: CutReader | None = None, on_commit: OnCommit | None = None) -> T:
        """What the steps come to; raises what they, the reader or `pause` raise."""
        try:
            action: Action = next(steps)
            while True:
                action = steps.send(self._perform(action, reader, on_commit))
        except StopIteration as end:
            found: T = end.value
            return found

    def ask(self, call: Callable[[], T]) -> T:
        """A call that may be made again, until it is answered."""
        while True:
            try:
                answer = call()
            except (Transient, BackPressure) as error:
                self._wait("read", error)
            else:
                self._unanswered["read"] = 0
                return answer

    def _perform(self, action: Action, reader: CutReader | None, on_commit: OnCommit | None) -> Any:
        match action:
            case ListAfter(prefix, after):
                return self.ask(lambda: tuple(each.key for each in self._store.list(prefix, start_after=after)))
            case Get(key):
                found = self.ask(lambda: self._store.get(key))
                return found.body if found else None
            case Heads(keys):
                return self._each(self._seen, keys)
            case PutBody(key, body):
                return self._put(lambda: self._store.put_if_absent(key, body))
            case PutFiles(puts):
                return self._each(self._send, puts)
            case ReadRange():
                if reader is None:
                    raise Terminal("a run that only looks was asked to read the log", first=action.first)
                return reader.read(action)
            case CutCommitted(commit):
                return on_commit(commit) if on_commit else None

    def _each(self, call: Callable[[T], U], items: Sequence[T]) -> tuple[U, ...]:
        if len(items) < 2 or self._sending.at_once == 1:
            return tuple(map(call, items))
        with ThreadPoolExecutor(min(self._sending.at_once, len(items))) as pool:
            return tuple(pool.map(call, items))

    def _seen(self, key: str) -> ObjectSeen | None:
        info = self.ask(lambda: self._store.head(key))
        if info is None:
            return None
        metadata: Mapping[str, str] = info.metadata or {}
        return ObjectSeen(info.size_bytes, metadata)

    def _send(self, put: PutFile) -> PutOutcome:
        path, key, size = Path(put.file.path), put.file.key, put.file.bytes
        if size <= self._sending.part_bytes:
            body = b"".join(_parts(path, size, self._sending.part_bytes))
            return self._put(lambda: self._store.put_if_absent(key, body, metadata=put.metadata))
        parts = partial(_parts, path, size, self._sending.part_bytes)
        return self._put(lambda: self._store.upload(key, parts(), if_absent=True, metadata=put.metadata))

    def _put(self, call: Callable[[], ObjectInfo | None]) -> PutOutcome:
        try:
            made = call()
        except (Transient, BackPressure) as error:
            self._wait("write", error)
            return "unknown"
        self._unanswered["write"] = 0
        return "exists" if made is None else "created"

    def _wait(self, kind: Literal["read", "write"], error: Transient | BackPressure) -> None:
        self._unanswered[kind] += 1
        self._pause(self._unanswered[kind], error)


def _parts(path: Path, size: int, part_bytes: int) -> Iterator[bytes]:
    """The whole file, or `Transient` before its end: local files may go at any time, and the cut is read again."""
    read_bytes = 0
    try:
        with path.open("rb") as stream:
            while part := stream.read(part_bytes):
                read_bytes += len(part)
                if read_bytes <= size:
                    yield part
    except OSError as error:
        raise _gone(path, error.strerror or str(error)) from error
    if read_bytes != size:
        raise _gone(path, f"{read_bytes} bytes, {size} when it was closed")


def _gone(path: Path, reason: str) -> Transient:
    return Transient(
        "a local file of the cut is not as it was closed",
        system="disk",
        path=str(path),
        reason=reason,
        fix="The cut is read again; does something clean its folder up?",
    )
