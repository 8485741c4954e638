"""From a record's bytes in the log (Avro, wire format) straight to what the index is sent: canonical JSON and texts.

Each class is a callable that equals a way through Python's values, and takes that way for schemas and records that the
compiled writer leaves to it: recursive types, texts that are no UTF-8, bytes that are not what the schema says. So
refusals are those of `Decoder` and `body_json`, whatever is compiled. Schemas are looked up once for each id.

Safe to use from several threads: they wait for the interpreter's lock, and where two meet one takes the slower way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from include.errors import InvalidRecord
from include.record.codec import Decoder
from include.record.json.body import body_json
from include.record.json.native import body_program, change_program, key_program
from include.record.key import doc_id

if TYPE_CHECKING:
    from include.record.json.native._avro_json import Program

__all__ = ["AvroKeys", "Bodies", "ChangeParts", "Changes", "SchemaOfId"]

SchemaOfId = Callable[[int], str | Mapping[str, Any]]
"""Gives the schema of an id, as JSON text or parsed; raises what it raises for ids that it does not know."""

ChangeParts = tuple[str, bytes | None, bytes | None]
"""(op, canonical JSON of `after`, of `before`); None where the envelope has no such image."""

_HEAD: Final = 5
T = TypeVar("T")


class _Programs(Generic[T]):
    """Programs by the five bytes in front of each value."""

    def __init__(self, lookup: SchemaOfId, made: Callable[[Any], T | None]) -> None:
        self.decode = Decoder(lookup)
        self._made = made
        self._found: dict[bytes, T | None] = {}

    def of(self, wire: bytes) -> T | None:
        head = wire[:_HEAD]
        try:
            return self._found[head]
        except KeyError:
            if len(head) < _HEAD or head[0]:
                return None
            made = self._made(self.decode.schema(int.from_bytes(head[1:], "big")))
            self._found[head] = made
            return made


class Bodies:
    """`bodies(wire)` is `body_json(Decoder(lookup)(wire))`."""

    def __init__(self, lookup: SchemaOfId) -> None:
        self._programs: _Programs[Program] = _Programs(lookup, body_program)

    def __call__(self, wire: bytes) -> bytes:
        """Canonical JSON of the value; raises `InvalidRecord`, and what `lookup` raises."""
        program = self._programs.of(wire)
        found = program.json(wire) if program is not None else None
        return body_json(self._programs.decode(wire)) if found is None else found


class AvroKeys:
    """`keys(wire)` is `doc_id(Decoder(lookup)(wire))`."""

    def __init__(self, lookup: SchemaOfId) -> None:
        self._programs: _Programs[Program] = _Programs(lookup, key_program)

    def __call__(self, wire: bytes) -> str:
        """The key's text; raises `InvalidRecord` also for a key that is no record of fields, and as `lookup` does."""
        program = self._programs.of(wire)
        found = program.doc_id(wire) if program is not None else None
        if found is not None:
            return found
        fields = self._programs.decode(wire)
        if not isinstance(fields, dict) or not fields:
            raise InvalidRecord("key is not a record of fields", reason="key", got=type(fields).__name__)
        return doc_id(fields)


class Changes:
    """`changes(wire)` takes a change envelope apart: its `op`, and its images as canonical JSON."""

    def __init__(self, lookup: SchemaOfId) -> None:
        self._programs: _Programs[tuple[Program, tuple[int, int, int]]] = _Programs(lookup, change_program)

    def __call__(self, wire: bytes) -> ChangeParts:
        """The parts; raises `InvalidRecord` for what is no change envelope too, and what `lookup` raises."""
        found = self._programs.of(wire)
        parts = found[0].change(wire, found[1]) if found is not None else None
        return self._parts(self._programs.decode(wire)) if parts is None else parts

    @staticmethod
    def _parts(value: Any) -> ChangeParts:
        if not isinstance(value, dict) or "after" not in value or not isinstance(value.get("op"), str):
            raise InvalidRecord("value is not a change envelope", reason="envelope", got=type(value).__name__)
        after, before = value["after"], value.get("before")
        return (
            value["op"],
            None if after is None else body_json(after),
            None if before is None else body_json(before),
        )
