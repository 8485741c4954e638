"""Requests to write documents anew, worked off a chunk of keys at a time beside the live signals. Pure.

How far each request is stands in its answer, in the transaction of the batch that did the work: the header
`progress` holds the request itself, the last keys done and the version that the work was stamped with. So a restart
goes on where the last commit ended, and each id is carried out once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from include.document.behind import Place, values_of, values_text
from include.document.spread import OWN
from include.errors import InvalidRecord
from include.log.ports import Headers, Record
from include.log.requests import Answer, Request

__all__ = ["FIRST_START", "Rebuild", "Rebuilds", "parse_key"]

_HEADER: Final = "progress"
FIRST_START: Final = "start"
"""Ids of the requests that an assembler makes for itself when it starts empty: this, `-` and a version."""

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Rebuild:
    """An open request.

    `since`: version at its first chunk, 0 before; `after`: the last key of the table done. `swept` is None until the
    whole table was walked; from then on the last key of the output topic done, of those whose documents are older than
    `since`. A request that begins there stands for a floor of that version.
    """

    request: Request
    since: int = 0
    after: Key | None = None
    done: int = 0
    swept: bytes | None = None
    lacking: int = 0
    """Documents that were set aside, as a row that they need is missing."""
    place: Place = (0, None)
    """The same as `after`, of a request for the documents behind some values."""

    def advanced(self, keys: int, after: Key | None, version: int) -> Rebuild:
        """After one more chunk of `keys` keys that ended at `after`, stamped with `version`."""
        return replace(self, since=self.since or version, after=after, done=self.done + keys)

    def walked(self, swept: bytes = b"") -> Rebuild:
        """Done with the table, and with the topic's keys up to `swept`."""
        return replace(self, swept=swept)

    def lacked(self, documents: int) -> Rebuild:
        """With so many more documents that lack a row."""
        return replace(self, lacking=self.lacking + documents)

    def note(self) -> str:
        """What its answer says beside the numbers."""
        parts = []
        if self.request.where:
            parts.append(f"by {self.request.where}: {self.place[0]:,} of {len(self.request.keys):,} values")
        if self.lacking:
            parts.append(f"{self.lacking:,} documents set aside, as rows that they need are missing")
        return "; ".join(parts)


class Rebuilds:
    """The requests of one topic: open ones in the order in which they were asked, ids that are done."""

    def __init__(self, answers: Iterable[Record] = ()) -> None:
        """Take up where the newest answer of each id left off."""
        self.open: dict[str, Rebuild] = {}
        self.closed: set[str] = set()
        self.stamped = 0
        """The greatest version that a request's documents were stamped with."""
        newest: dict[bytes, Record] = {}
        for record in answers:
            if record.key is not None and record.value is not None:
                newest[record.key] = record
        for record in newest.values():
            self._load(record)

    def accept(self, request: Request, numbers: Sequence[bool]) -> str | None:
        """Take a request; None when its id is known already, else the reason of a refusal, or ''.

        `numbers` says for each part of the key whether it is an integer.
        """
        if self.knows(request.id):
            return None
        reason = _refusal(request, numbers)
        if reason:
            self.closed.add(request.id)
        else:
            self.open[request.id] = Rebuild(request)
        return reason

    def sweep(self, request: Request, floor: int, swept: bytes) -> None:
        """Take a request for the documents that are older than `floor`, beyond those up to `swept`."""
        self.open[request.id] = Rebuild(request, floor, swept=swept)

    def due(self, version: int) -> Rebuild | None:
        """The request to work on in a batch that is cut at a resolved record of `version`.

        Repairs go before rebuilds, which take longer, those of some documents before those of all, else by the time
        that they were asked at, with a way's rest before the way. None when nothing is open, or when documents were
        stamped with that version before: no (key, version) twice.
        """
        if version <= self.stamped:
            return None
        return min(self.open.values(), key=_turn, default=None)

    def record(self, rebuild: Rebuild, version: int, *, finished: bool) -> None:
        """Note what the batch of `version` did."""
        self.stamped = max(self.stamped, version)
        if finished:
            self.open.pop(rebuild.request.id, None)
            self.closed.add(rebuild.request.id)
        else:
            self.open[rebuild.request.id] = rebuild

    def knows(self, id_: str) -> bool:
        """Whether a request of this id was taken in or refused before."""
        return id_ in self.open or id_ in self.closed

    def will_rebuild(self) -> bool:
        """Whether all documents will be written anew by a request that has not begun yet."""
        return any(_of_all(each.request) and not each.since for each in self.open.values())

    def unasked(self, where: str, values: Iterable[str]) -> list[str]:
        """Of the values those for whose documents no request waits to begin."""
        waiting = [each.request for each in self.open.values() if each.request.where == where and not each.since]
        held = {text for request in waiting for text in request.keys}
        return [text for text in values if text not in held]

    def headers(self, rebuild: Rebuild) -> Headers:
        """What the answer carries for a restart; of a request that is done not its keys, which nobody needs again."""
        request = rebuild.request
        if request.id in self.closed:
            request = replace(request, keys=())
        after = None if rebuild.after is None else list(rebuild.after)
        value = {
            "request": request.value().decode(),
            "since": rebuild.since,
            "after": after,
            "stamped": self.stamped,
            "lacking": rebuild.lacking,
            "swept": None if rebuild.swept is None else rebuild.swept.hex(),
        }
        if request.where:
            number, last = rebuild.place
            value["place"] = [number, None if last is None else values_text(last)]
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
        after = None if progress["after"] is None else tuple(progress["after"])
        request = Request.parse(progress["request"].encode())
        swept = progress.get("swept")
        swept = None if swept is None else bytes.fromhex(swept)
        lacking = progress.get("lacking", 0)
        number, last = progress.get("place", (0, None))
        place = number, None if last is None else values_of(last)
        self.open[answer.id] = Rebuild(request, progress["since"], after, answer.done, swept, lacking, place)


def _of_all(request: Request) -> bool:
    return request.kind == "rebuild" and not request.where


def _turn(rebuild: Rebuild) -> tuple[bool, bool, int, int, str]:
    request = rebuild.request
    return request.kind == "rebuild", _of_all(request), request.at_us, len(request.tables), request.id


def _refusal(request: Request, numbers: Sequence[bool]) -> str:
    if request.kind == "rebuild":
        if (request.keys or request.where) and not request.id.startswith(f"{OWN}-"):
            return "a rebuild is of all documents, some are asked for by repair"
        return ""
    if request.kind != "repair":
        return f"documents are asked for by rebuild and repair, not by {request.kind}"
    if not request.keys:
        return "a repair names keys"
    try:
        for key in request.keys:
            parse_key(key, numbers)
    except InvalidRecord as error:
        return str(error)
    return ""


def parse_key(text: str, numbers: Sequence[bool]) -> Key:
    """A document's id as a key; `numbers` says for each part whether it is an integer. Inverse of `key.doc_id`.

    Raises `InvalidRecord` for a text that is no such id.
    """
    parts: Any = [text]
    try:
        if len(numbers) > 1:
            parts = json.loads(text)
        return tuple(int(part) if number else str(part) for part, number in zip(parts, numbers, strict=True))
    except (ValueError, TypeError) as error:
        raise InvalidRecord("not a key of this document", reason=str(error), key=text) from error
