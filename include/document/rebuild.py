"""Requests to write documents anew, worked off a chunk of keys at a time beside the live signals. Pure.

Each answer holds the last keys done (`log.requests.work`), so that a restart goes on behind them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from include.document.behind import WalkPlace, values_of, values_text
from include.document.overflow_requests import OWN
from include.errors import InvalidRecord
from include.log.requests.records import Answer, Request
from include.log.requests.work import RequestWork

__all__ = ["FIRST_START", "Rebuild", "Rebuilds", "parse_key"]

FIRST_START: Final = "start"
"""Ids of the requests that an assembler makes for itself when it starts empty: this, `-` and a version."""

DocumentKey = tuple[Any, ...]


@dataclass(frozen=True)
class Rebuild:
    """An open request.

    `since`: version at its first chunk, 0 before; `after`: the last key of the table done. `swept` is None until the
    whole table was walked; from then on the last key of the output topic done, of those whose documents are older than
    `since`. A request that begins there stands for a floor of that version.
    """

    request: Request
    since: int = 0
    after: DocumentKey | None = None
    done: int = 0
    swept: bytes | None = None
    lacking: int = 0
    """Documents that were set aside, as a row that they need is missing."""
    place: WalkPlace = (0, None)
    """The same as `after`, of a request for the documents behind some values."""
    relied: bool = False
    """Whether a change has no request of its own, as this one was to begin later and writes all documents."""

    @property
    def owed(self) -> bool:
        """Whether documents may lack changes until it is done; else it repeats what documents have."""
        return self.relied or self.request.id.startswith((f"{OWN}-", f"{FIRST_START}-"))

    def advanced(self, keys: int, after: DocumentKey | None, version: int) -> Rebuild:
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


class Rebuilds(RequestWork[Rebuild]):
    """The requests of one topic.

    Repairs go before rebuilds, which take longer, those of some documents before those of all, else by the time that
    they were asked at, with a way's rest before the way.
    """

    def accept(self, request: Request, numbers: Sequence[bool]) -> str | None:
        """Take a request; None when its id is known already, else the reason of a refusal, or ''.

        `numbers` says for each part of the key whether it is an integer.
        """
        return self.take(Rebuild(request), _refusal(request, numbers))

    def sweep(self, request: Request, floor: int, swept: bytes) -> None:
        """Take a request for the documents that are older than `floor`, beyond those up to `swept`."""
        self.open[request.id] = Rebuild(request, floor, swept=swept)

    def rely(self) -> Request | None:
        """The request that makes the changes of this batch good, whatever they touch; None: there is none.

        It is one for all documents that has not begun, thus reads every page in a snapshot that has the changes. One
        that has begun does not do: its first pages are of before. From now on it is owed; its answer has to say so.
        """
        waiting = [each for each in self.open.values() if _of_all(each.request) and not each.since]
        if not waiting:
            return None
        first = min(waiting, key=self._turn)
        self.open[first.request.id] = replace(first, relied=True)
        return first.request

    def unasked(self, where: str, values: Iterable[str]) -> list[str]:
        """Of the values those for whose documents no request waits to begin."""
        waiting = [each.request for each in self.open.values() if each.request.where == where and not each.since]
        held = {text for request in waiting for text in request.keys}
        return [text for text in values if text not in held]

    def _progress(self, work: Rebuild) -> Mapping[str, Any]:
        value: dict[str, Any] = {
            "since": work.since,
            "after": None if work.after is None else list(work.after),
            "lacking": work.lacking,
            "swept": None if work.swept is None else work.swept.hex(),
            "relied": work.relied,
        }
        if work.request.where:
            number, last = work.place
            value["place"] = [number, None if last is None else values_text(last)]
        return value

    def _resumed(self, request: Request, answer: Answer, progress: Mapping[str, Any]) -> Rebuild:
        after = None if progress["after"] is None else tuple(progress["after"])
        swept = progress.get("swept")
        swept = None if swept is None else bytes.fromhex(swept)
        number, last = progress.get("place", (0, None))
        place = number, None if last is None else values_of(last)
        lacking, relied = progress.get("lacking", 0), progress.get("relied", False)
        return Rebuild(request, progress["since"], after, answer.done, swept, lacking, place, relied)

    def _turn(self, work: Rebuild) -> tuple[bool, bool, int, int, str]:
        request = work.request
        return request.kind == "rebuild", _of_all(request), request.at_us, len(request.tables), request.id


def _of_all(request: Request) -> bool:
    return request.kind == "rebuild" and not request.where


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


def parse_key(text: str, numbers: Sequence[bool]) -> DocumentKey:
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
