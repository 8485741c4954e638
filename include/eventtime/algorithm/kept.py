"""Encodes what is kept of a key between batches: its state, its timers, how many outputs it has made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import orjson

from include.errors import Terminal
from include.eventtime.model.process import Process
from include.eventtime.model.typed import DataclassFields

__all__ = ["KeptState", "StateCodec", "Stored"]

S = TypeVar("S")

Stored = tuple[int, dict[str, Any]]
"""A state: (its version, field → value)."""


@dataclass(slots=True)
class KeptState:
    """What stands under a key.

    Args:
        state: as `StateCodec` stores it; None: the key has the state's defaults.
        timers: name → time, µs.
        ordinal: how many outputs the key has made: the last one's version.
        index: at which time the index has the key, never later than its first timer; None: nowhere.
    """

    state: Stored | None = None
    timers: dict[str, int] = field(default_factory=dict)
    ordinal: int = 0
    index: int | None = None

    def to_bytes(self) -> bytes | None:
        """Encodes what is stored; None: there is nothing to store."""
        if self.state is None and not (self.timers or self.ordinal or self.index is not None):
            return None
        return orjson.dumps([self.ordinal, self.index, self.timers, *(self.state or ())])

    @classmethod
    def from_bytes(cls, stored: bytes | None) -> KeptState:
        """Inverse of `to_bytes`."""
        if stored is None:
            return cls()
        ordinal, index, timers, *state = orjson.loads(stored)
        return cls((state[0], state[1]) if state else None, timers, ordinal, index)


class StateCodec(Generic[S]):
    """States of a process as plain values, none of which a handler that is called later can reach.

    Raises:
        TypeError: the state's dataclass has a field that `typed` does not allow, or one without a default.
    """

    def __init__(self, process: Process[S]) -> None:
        self._process, self._version = process, process.state_version
        self._typed = DataclassFields(process.state)
        self._names = frozenset(self._typed.names)
        self._default = self._typed.plain(self._made({}))

    def store(self, state: S) -> Stored | None:
        """Gives what is kept, None for the defaults; raises `TypeError` for a field that has not its type."""
        if type(state) is not self._typed.kind:
            raise TypeError(f"ctx.state is {type(state).__name__}, not {self._typed.kind.__name__}")
        plain = self._typed.plain(state)
        return None if plain == self._default else (self._version, self._own(plain))

    def load(self, stored: Stored | None) -> S:
        """Inverse of `store`; of an earlier version, what `Process.upgraded` makes of it.

        Raises:
            Terminal: the state is of a later version, its fields changed under the same version, or `upgraded` gives
                what it cannot hold.
        """
        if stored is None:
            return self._made({})
        version, fields = stored
        if version > self._version or (version == self._version and fields.keys() != self._names):
            raise Terminal(
                "the state of a key is not of this version of the process",
                process=type(self._process).__name__,
                version=version,
                fields=sorted(fields),
                allowed=f"{self._version}: {', '.join(self._typed.names)}",
                fix="Raise `state_version` with each change of the fields, and say in `upgraded` what becomes of them.",
            )
        fields = self._own(fields)
        return self._made(self._upgraded(version, fields) if version < self._version else fields)

    def _made(self, fields: Mapping[str, Any]) -> S:
        state: Any = self._typed.kind(**fields)
        return cast("S", state)

    def _own(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Without references to lists and dicts that somebody else has, as they would come back from the store."""
        if self._typed.nested:
            fields = orjson.loads(orjson.dumps(fields))
        return fields

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
