"""The model of a job: a class that is called for each element and each timer of a key, in one total order.

```python
@dataclass
class Seen:
    at: EventTime | None = None

class Quiet(Process[Seen]):
    state = Seen
    outputs: ClassVar = {"alarms": Alarm}

    def on_element(self, element, ctx):
        ctx.state.at = element.time
        ctx.set_timer("quiet", element.time + 60_000_000)

    def on_timer(self, name, time, ctx):
        ctx.emit("alarms", Alarm(at=time, since=ctx.state.at))
```

**Order.** Of one key, elements come by (event time, source, partition, offset). A timer comes after the elements of its
time, and before those of any later time; timers of one time come by name. An element is buffered until the watermark
has passed its time, so this is the order whatever the batches, the partitions' speeds and the restarts were.

**What a handler may use**: its arguments, `self.settings`, and what it computes of these. The clock, random numbers,
the environment, files and the network would make a replay differ, so `lyrebird check` refuses them, as it refuses to
keep anything elsewhere than in `ctx.state`, and to go through a set in its order (`handlers`).

**State** is stored after each call: the next call sees what was stored. A call that raises leaves nothing behind: its
element or timer is set aside with the error, state and timers stand as before it, its outputs are not written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

import orjson

from include.eventtime.model.typed import DataclassFields, EventTime
from include.settings.deployment import Strict

__all__ = ["Context", "Element", "EventTime", "Key", "Process"]

_FARTHEST: Final = 1 << 60

S = TypeVar("S")
Key = str | int


class Element:
    """One record.

    Attributes:
        time: its event time, µs since 1970-01-01 UTC.
        topic: where it was read.
        partition: in that topic.
        offset: in that partition.
        key: of the process; in general not the record's own key.

    Args:
        json: its fields, as JSON; they are parsed when `value` is first asked for.
    """

    __slots__ = ("_json", "_value", "key", "offset", "partition", "time", "topic")

    def __init__(self, time: int, topic: str, partition: int, offset: int, key: Key, json: bytes) -> None:
        self.time, self.topic, self.partition, self.offset = time, topic, partition, offset
        self.key, self._json = key, json
        self._value: dict[str, Any] | None = None

    @property
    def value(self) -> dict[str, Any]:
        """Its fields, as JSON has them: times as ISO 8601, decimals as text."""
        value = self._value
        if value is None:
            value = self._value = orjson.loads(self._json)
        return value


class Context(Generic[S]):
    """What a handler may do beside computing; it is valid during one call.

    Attributes:
        key: whose element or timer it is.
        time: its event time, µs since 1970-01-01 UTC.
        state: what is kept of the key; change its fields, or put another in its place.
    """

    __slots__ = ("_by_timer", "_outputs", "_timers", "emitted", "key", "state", "time")

    def __init__(self, outputs: Mapping[str, DataclassFields]) -> None:
        self._outputs = outputs
        self.key: Key = ""
        self.time = 0
        self.state: S
        self._timers: dict[str, int] = {}
        self._by_timer = False
        self.emitted: list[tuple[str, dict[str, Any]]] = []

    def set_timer(self, name: str, time: int) -> None:
        """Call `on_timer` once for `time`, instead of for the time that a timer of this name was set to before.

        A time that has passed counts as this call's own: such a timer comes next, after the elements of its time.

        Raises:
            ValueError: in `on_timer` a timer was set that is not later, so that time would not go on; the name is in
                no encoding; or the time is beyond 36,000 years, as one in nanoseconds is.
        """
        if type(time) is not int or type(name) is not str:
            raise TypeError(f"a timer has a text and whole microseconds, not {name!r} and {time!r}")
        if not name.isascii():
            name.encode()
        if time >= _FARTHEST:
            raise ValueError(f"timer {name!r} is set to {time:,}, which are no microseconds since 1970")
        if time <= self.time:
            if self._by_timer:
                raise ValueError(f"timer {name!r} is set by a timer and lies not after it")
            time = self.time
        self._timers[name] = time

    def cancel_timer(self, name: str) -> None:
        """Forget a timer; nothing happens where there is none of this name."""
        self._timers.pop(name, None)

    def timer(self, name: str) -> int | None:
        """The time that a timer is set to."""
        return self._timers.get(name)

    def emit(self, output: str, value: object) -> None:
        """Write `value`, as it is now, to one of the job's outputs.

        Raises:
            LookupError: the job has no such output.
            TypeError: the output takes another class, or a field has not its type.
        """
        typed = self._outputs.get(output)
        if typed is None:
            raise LookupError(f"the job has no output {output!r}: {', '.join(self._outputs) or 'none'}")
        if type(value) is not typed.kind:
            raise TypeError(f"output {output!r} takes {typed.kind.__name__}, not {type(value).__name__}")
        self.emitted.append((output, typed.copied(value)))

    def begin(self, key: Key, time: int, state: S, timers: dict[str, int], *, by_timer: bool) -> None:
        """For whoever calls handlers: make it ready for a call."""
        self.key, self.time, self.state = key, time, state
        self._timers, self._by_timer = timers, by_timer
        self.emitted = []


@dataclasses.dataclass
class _NoState:
    """Of a process that keeps none."""


class _NoSettings(Strict):
    """Of a process that has none."""


class Process(Generic[S]):
    """Base of all jobs; an object of it is made for each worker, from the deployment's `settings`.

    Attributes:
        state: a dataclass whose fields all have defaults: what is kept of each key (`typed` has the types).
        state_version: raise it when fields change; see `upgraded`.
        settings_type: a model (`Strict`) of the settings, all of which have defaults.
        outputs: name → a dataclass: what `emit` takes.
        key: the type of the keys, `str` or `int`.
    """

    state: ClassVar[type] = _NoState
    state_version: ClassVar[int] = 1
    settings_type: ClassVar[type[Strict]] = _NoSettings
    outputs: ClassVar[Mapping[str, type]] = {}
    key: ClassVar[type] = str

    def __init__(self, settings: Any) -> None:
        self.settings: Final = settings

    def on_element(self, element: Element, ctx: Context[S]) -> None:
        """An element of a key."""
        raise NotImplementedError

    def on_timer(self, name: str, time: int, ctx: Context[S]) -> None:
        """A timer of a key; `time`: what it was set to, and what `ctx.time` is."""
        raise NotImplementedError

    def upgraded(self, version: int, fields: dict[str, Any]) -> Mapping[str, Any]:
        """The fields of a state that an earlier `state_version` stored; fields that it does not give have defaults.

        By itself a field is taken over where there still is one of its name.
        """
        names = {each.name for each in dataclasses.fields(self.state)}
        return {name: value for name, value in fields.items() if name in names}
