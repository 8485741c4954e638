"""Requests that the one writer of a topic works off, each once, over many batches and restarts. Pure.

How far each request is stands in its answer, in the transaction of the batch that did the work: the header `progress`
holds the request itself, the greatest version that any work was stamped with, and what the kind of work needs to go on.
So a restart goes on where the last commit ended, and each id is carried out once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Generic, Protocol, TypeVar

import orjson

from include.log.ports import Headers, Record
from include.log.requests.records import Answer, Request

__all__ = ["RequestProgress", "RequestWork"]

_HEADER: Final = "progress"


class RequestProgress(Protocol):
    """How far an open request is; a new value for each batch that did some of it."""

    @property
    def request(self) -> Request:
        """What was asked."""


W = TypeVar("W", bound=RequestProgress)


class RequestWork(ABC, Generic[W]):
    """The requests of one topic: open ones in the order in which they were asked, ids that are done."""

    def __init__(self, answers: Iterable[Record] = ()) -> None:
        """Take up where the newest answer of each id left off."""
        self.open: dict[str, W] = {}
        self.closed: set[str] = set()
        self.stamped = 0
        """The greatest version that a request's outputs were stamped with."""
        newest: dict[bytes, Record] = {}
        for record in answers:
            if record.key is not None and record.value is not None:
                newest[record.key] = record
        for record in newest.values():
            self._load(record)

    @abstractmethod
    def _progress(self, work: W) -> Mapping[str, Any]:
        """What a restart needs beside the request, as JSON takes it."""

    @abstractmethod
    def _resumed(self, request: Request, answer: Answer, progress: Mapping[str, Any]) -> W:
        """Inverse of `_progress`."""

    @abstractmethod
    def _turn(self, work: W) -> Any:
        """What orders open requests: the least is worked on."""

    def take(self, work: W, refused: str = "") -> str | None:
        """Take a request in, or refuse it for a reason; gives the reason back, None when its id is known already."""
        request_id = work.request.id
        if self.knows(request_id):
            return None
        if refused:
            self.closed.add(request_id)
        else:
            self.open[request_id] = work
        return refused

    def due(self, version: int) -> W | None:
        """The request to work on in a batch that is cut at a resolved record of `version`.

        None when nothing is open, or when outputs were stamped with that version before: no (key, version) twice.
        """
        if version <= self.stamped:
            return None
        return min(self.open.values(), key=self._turn, default=None)

    def record(self, work: W, version: int, *, finished: bool) -> None:
        """Note what the batch of `version` did."""
        self.stamped = max(self.stamped, version)
        if finished:
            self.open.pop(work.request.id, None)
            self.closed.add(work.request.id)
        else:
            self.open[work.request.id] = work

    def knows(self, id_: str) -> bool:
        """Whether a request of this id was taken in or refused before."""
        return id_ in self.open or id_ in self.closed

    def headers(self, work: W) -> Headers:
        """What the answer carries for a restart; of a request that is done not its keys, which nobody needs again."""
        request = work.request
        if request.id in self.closed:
            request = replace(request, keys=())
        value = {"request": request.value().decode(), "stamped": self.stamped, **self._progress(work)}
        return ((_HEADER, orjson.dumps(value)),)

    def _load(self, record: Record) -> None:
        answer = Answer.parse(record.value or b"")
        held = dict(record.headers).get(_HEADER)
        if held is None:
            self.closed.add(answer.id)
            return
        progress = orjson.loads(held)
        self.stamped = max(self.stamped, progress["stamped"])
        if answer.state in ("done", "refused"):
            self.closed.add(answer.id)
            return
        self.open[answer.id] = self._resumed(Request.parse(progress["request"].encode()), answer, progress)
