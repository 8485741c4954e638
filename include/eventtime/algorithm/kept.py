"""What is kept of a key between batches: its state, its timers, how many outputs it has made."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, cast

import orjson

from include.errors import Terminal
from include.eventtime.model.process import Process
from include.eventtime.model.typed import Typed

__all__ = ["Kept", "StateCodec"]

S = TypeVar("S")
_LENGTH: Final = struct.Struct(">I")


@dataclass(slots=True)
class Kept:
    """What stands under a key.

    Args:
        state: as `StateCodec` packs it; empty: the key has the state's defaults.
        timers: name → time, µs.
        ordinal: how many outputs the key has made: the last one's version.
        index: at which time the index has the key, never later than its first timer; None: nowhere.
    """

    state: bytes = b""
    timers: dict[str, int] = field(default_factory=dict)
    ordinal: int = 0
    index: int | None = None

    def to_bytes(self) -> bytes | None:
        """What is stored; None: there is nothing to store."""
        if not (self.state or self.timers or self.ordinal or self.index is not None):
            return None
        head = orjson.dumps([self.ordinal, self.index, self.timers])
        return _LENGTH.pack(len(head)) + head + self.state

    @classmethod
    def from_bytes(cls, stored: bytes | None) -> Kept:
        """Inverse of `to_bytes`."""
        if stored is None:
            return cls()
        end = _LENGTH.size + _LENGTH.unpack_from(stored)[0]
        ordinal, index, timers = orjson.loads(stored[_LENGTH.size : end])
        return cls(stored[end:], timers, ordinal, index)


class StateCodec(Generic[S]):
    """States of a process as bytes: `[state_version, {field: value, …}]` in JSON.

    Raises:
        TypeError: the state's dataclass has a field that `typed` does not allow, or one without a default.
    """

    def __init__(self, process: Process[S]) -> None:
        self._process, self._version = process, process.state_version
        self._typed = Typed(process.state)
        self._names = frozenset(self._typed.names)
        self._default = self._packed(self._made())

    def pack(self, state: S) -> bytes:
        """What is stored, empty for the defaults; raises `TypeError` for a field that has not its type."""
        packed = self._packed(state)
        return b"" if packed == self._default else packed

    def unpack(self, packed: bytes) -> S:
        """Inverse of `pack`; of an earlier version, what `Process.upgraded` makes of it.

        Raises:
            Terminal: the state is of a later version, its fields changed under the same version, or `upgraded` gives
                what it cannot hold.
        """
        if not packed:
            return self._made()
        version, fields = orjson.loads(packed)
        if version > self._version or (version == self._version and fields.keys() != self._names):
            raise Terminal(
                "the state of a key is not of this version of the process",
                process=type(self._process).__name__,
                version=version,
                fields=sorted(fields),
                allowed=f"{self._version}: {', '.join(self._typed.names)}",
                fix="Raise `state_version` with each change of the fields, and say in `upgraded` what becomes of them.",
            )
        if version < self._version:
            fields = self._upgraded(version, fields)
        return self._made(**fields)

    def _made(self, **fields: Any) -> S:
        state: Any = self._typed.kind(**fields)
        return cast("S", state)

    def _packed(self, state: S) -> bytes:
        if type(state) is not self._typed.kind:
            raise TypeError(f"ctx.state is {type(state).__name__}, not {self._typed.kind.__name__}")
        return orjson.dumps([self._version, self._typed.plain(state)])

    def _upgraded(self, version: int, fields: dict[str, Any]) -> dict[str, Any]:
        try:
            made = dict(self._process.upgraded(version, fields))
            self._typed.values(self._typed.kind(**made))
        except (TypeError, ValueError, LookupError) as error:
            raise Terminal(
                "a state of an earlier version cannot be taken over",
                process=type(self._process).__name__,
                version=version,
                fields=sorted(fields),
                reason=str(error),
                fix="Say in `upgraded` what becomes of these fields.",
            ) from error
        return made
