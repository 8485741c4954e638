"""Requests and answers: how anyone asks the only writer of a topic for something (design.md §4).

The asker makes the id and keeps it over retries; the writer carries each id out once and answers how far it is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import orjson

from include.errors import InvalidRecord

__all__ = ["Answer", "AnswerState", "Request", "RequestKind"]

RequestKind = Literal["snapshot", "reread", "resume_table", "rebuild", "repair"]
"""snapshot: read tables anew; reread: tables whole, in the place of what the log has of them, or some of their keys;
resume_table: take up a table that was set aside; rebuild: write every key of an output topic anew; repair: some keys
of it."""

AnswerState = Literal["accepted", "running", "done", "refused"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `tables` empty = all, `keys` empty = all of the tables' keys. `at_us`: when it was asked.

    `where`: condition that chooses the rows of a snapshot (`source.snapshot.condition`); `rows_per_s`: most rows that
    it reads in a second, 0: no limit, None: as declared.
    """

    id: str
    kind: RequestKind
    by: str
    at_us: int
    tables: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    where: str = ""
    rows_per_s: int | None = None

    def key(self) -> bytes:
        """The record's key: the id."""
        return self.id.encode()

    def value(self) -> bytes:
        """The record's value: JSON."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)

    @classmethod
    def parse(cls, data: bytes) -> Request:
        """Inverse of `value`; raises `InvalidRecord`."""
        raw = _object(data, "request")
        try:
            return cls(
                raw["id"],
                raw["kind"],
                raw["by"],
                raw["at_us"],
                tuple(raw["tables"]),
                tuple(raw["keys"]),
                raw.get("where", ""),
                raw.get("rows_per_s"),
            )
        except (KeyError, TypeError) as error:
            raise InvalidRecord("not a request", reason=repr(error), head=data[:80].hex()) from error


@dataclass(frozen=True, slots=True)
class Answer:
    """How far a request is; `done` and `total` count rows or keys, `total` None while it is unknown."""

    id: str
    state: AnswerState
    at_us: int
    done: int = 0
    total: int | None = None
    note: str = ""

    def key(self) -> bytes:
        """The record's key: the request's id."""
        return self.id.encode()

    def value(self) -> bytes:
        """The record's value: JSON."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)

    @classmethod
    def parse(cls, data: bytes) -> Answer:
        """Inverse of `value`; raises `InvalidRecord`."""
        raw = _object(data, "answer")
        try:
            return cls(**raw)
        except TypeError as error:
            raise InvalidRecord("not an answer", reason=repr(error), head=data[:80].hex()) from error


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidRecord(f"not a {what}", reason=str(error), head=data[:80].hex()) from error
    if not isinstance(raw, dict):
        raise InvalidRecord(f"not a {what}", reason="no JSON object", head=data[:80].hex())
    return raw
