"""One key's way through time: its elements and timers in their order, each a call of the process.

A call gets the state as it was stored, and what it leaves is stored behind it, so that it makes no difference whether
the next call belongs to the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from include.eventtime.algorithm.kept import KeptState, StateCodec
from include.eventtime.algorithm.order import ArrivedElement, key_of
from include.eventtime.model.process import Context, Element, Key, Process
from include.eventtime.model.typed import DataclassFields

__all__ = ["CallMoment", "Calls", "Emitted", "FailedCall"]

S = TypeVar("S")
_MOST_TEXT: Final = 500


class CallMoment(NamedTuple):
    """Where a call stands in the order: at one time elements first; timers by key and name.

    `place`: (source, partition, offset) of an element, (key, name) of a timer.
    """

    time: int
    by_timer: bool
    place: tuple[Any, ...]


class Emitted(NamedTuple):
    """An output: `version` counts the outputs of its key; `value`: field → value, times in µs."""

    moment: CallMoment
    key: Key
    version: int
    output: str
    value: dict[str, Any]


class FailedCall(NamedTuple):
    """A call that raised: what it had to do is set aside. `element` None: a timer, whose name `moment` has."""

    moment: CallMoment
    key: Key
    element: ArrivedElement | None
    reason: str


class Calls(Generic[S]):
    """Calls the handlers of one process.

    Raises:
        TypeError: a type of its state or outputs is one that `model.typed` does not allow.
    """

    def __init__(self, process: Process[S], topics: Sequence[str]) -> None:
        self._process, self._topics = process, tuple(topics)
        self._states = StateCodec(process)
        self._context: Context[S] = Context({name: DataclassFields(kind) for name, kind in process.outputs.items()})

    def advance(
        self, kept: KeptState, key: bytes, elements: Sequence[ArrivedElement], until: int
    ) -> tuple[list[Emitted], list[FailedCall]]:
        """Bring a key to the time `until` (included): call what is due, and change `kept` accordingly.

        Args:
            kept: of this key; changed.
            key: the key.
            elements: all of the key that are not after `until` and were not here before, in order.
            until: the watermark, µs.
        """
        emitted: list[Emitted] = []
        failed: list[FailedCall] = []
        name_of_key = key_of(key)
        done, count = 0, len(elements)
        while True:
            first = _first(kept.timers)
            if done < count and (first is None or elements[done].time <= first[1]):
                self._on_element(kept, name_of_key, elements[done], emitted, failed)
                done += 1
            elif first is not None and first[1] <= until:
                del kept.timers[first[0]]
                self._on_timer(kept, name_of_key, *first, emitted, failed)
            else:
                return emitted, failed

    def _on_element(
        self, kept: KeptState, key: Key, element: ArrivedElement, emitted: list[Emitted], failed: list[FailedCall]
    ) -> None:
        time, source, partition, offset, _, value = element
        timers, context = dict(kept.timers), self._context
        given = Element(time, self._topics[source], partition, offset, key, value)
        context.begin(key, time, self._states.load(kept.state), timers, by_timer=False)
        try:
            self._process.on_element(given, context)
            state = self._states.store(context.state)
        except Exception as error:  # noqa: BLE001 - the author's code may raise anything
            failed.append(FailedCall(CallMoment(time, False, (source, partition, offset)), key, element, _told(error)))
            return
        kept.state, kept.timers = state, timers
        if context.emitted:
            self._emit(kept, CallMoment(time, False, (source, partition, offset)), key, emitted)

    def _on_timer(
        self, kept: KeptState, key: Key, name: str, time: int, emitted: list[Emitted], failed: list[FailedCall]
    ) -> None:
        timers, context = dict(kept.timers), self._context
        context.begin(key, time, self._states.load(kept.state), timers, by_timer=True)
        try:
            self._process.on_timer(name, time, context)
            state = self._states.store(context.state)
        except Exception as error:  # noqa: BLE001 - the author's code may raise anything
            failed.append(FailedCall(CallMoment(time, True, (key, name)), key, None, _told(error)))
            return
        kept.state, kept.timers = state, timers
        if context.emitted:
            self._emit(kept, CallMoment(time, True, (key, name)), key, emitted)

    def _emit(self, kept: KeptState, moment: CallMoment, key: Key, emitted: list[Emitted]) -> None:
        for output, value in self._context.emitted:
            kept.ordinal += 1
            emitted.append(Emitted(moment, key, kept.ordinal, output, value))


def _first(timers: dict[str, int]) -> tuple[str, int] | None:
    """The timer that comes next."""
    if len(timers) > 1:
        return min(timers.items(), key=_by_time)
    return next(iter(timers.items()), None)


def _by_time(timer: tuple[str, int]) -> tuple[int, str]:
    return timer[1], timer[0]


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MOST_TEXT]
