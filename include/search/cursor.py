"""Encodes the end of a page: the sort values of its last document, as a text that the caller hands back.

Lists by time are sorted by (time, doc_id), both descending, so that the order is total and stays the same however much
is written in between.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from include.clock import iso
from include.errors import SettingsError

__all__ = ["DistanceCursor", "ListPlace", "field_of", "moment_us"]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True, order=True)
class ListPlace:
    """A place in a list by time: microseconds since the epoch (UTC), then the id. Lists run from great to small."""

    at_us: int
    doc_id: str

    @classmethod
    def parse(cls, text: str) -> ListPlace:
        """Inverse of `str`; raises `SettingsError`."""
        at, doc_id = _pair(text)
        if not isinstance(at, str) or not isinstance(doc_id, str):
            raise _refused(text)
        try:
            return cls(moment_us(at), doc_id)
        except ValueError as error:
            raise _refused(text) from error

    @classmethod
    def of(cls, body: Mapping[str, Any], field: str, doc_id: str, step_us: int = 1) -> ListPlace:
        """Of a document; one without the moment comes last. `step_us`: how finely the index sorts."""
        value = field_of(body, field)
        at_us = moment_us(value) if isinstance(value, str) else 0
        return cls(at_us - at_us % step_us, doc_id)

    def __str__(self) -> str:
        return json.dumps([iso(self.at_us), self.doc_id], ensure_ascii=False)

    def search_after(self) -> list[Any]:
        """As the server takes it."""
        return [iso(self.at_us), self.doc_id]


@dataclass(frozen=True, slots=True, order=True)
class DistanceCursor:
    """A place in a list by distance: metres, then the id, both ascending."""

    metres: float
    doc_id: str

    @classmethod
    def parse(cls, text: str) -> DistanceCursor:
        """Inverse of `str`; raises `SettingsError`."""
        metres, doc_id = _pair(text)
        if isinstance(metres, bool) or not isinstance(metres, int | float) or not isinstance(doc_id, str):
            raise _refused(text)
        return cls(float(metres), doc_id)

    def __str__(self) -> str:
        return json.dumps([self.metres, self.doc_id], ensure_ascii=False)

    def search_after(self) -> list[Any]:
        """As the server takes it."""
        return [self.metres, self.doc_id]


def moment_us(text: str) -> int:
    """Microseconds since the epoch of an ISO 8601 text; without a zone it is UTC. Raises `ValueError`."""
    moment = dt.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)


def field_of(body: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None when a part is missing."""
    here: Any = body
    for step in path.split("."):
        if not isinstance(here, Mapping):
            return None
        here = here.get(step)
    return here


def _pair(text: str) -> tuple[Any, Any]:
    try:
        pair = json.loads(text)
    except ValueError as error:
        raise _refused(text) from error
    if not isinstance(pair, list) or len(pair) != 2:
        raise _refused(text)
    return pair[0], pair[1]


def _refused(text: str) -> SettingsError:
    return SettingsError("not the end of a page", got=text, fix="Give `next` of the page before as it is.")
