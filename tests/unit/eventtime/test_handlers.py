"""What a process must not do is found before it runs, by the place where it stands."""

from __future__ import annotations

import datetime as dt
import os
import random
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from random import random as chance
from time import time as clock
from typing import Any

import numpy
import pytest

from include.eventtime.jobs.battery import Battery
from include.eventtime.jobs.locked import MovedWhileLocked
from include.eventtime.jobs.offline import Offline
from include.eventtime.jobs.sessions import Sessions
from include.eventtime.model.handlers import faults
from include.eventtime.model.process import Context, Element, Process
from tests.support.eventtime.histories import Everything

pytestmark = pytest.mark.unit

SEEN: dict[str, int] = {}
NAMES = {"a", "b"}


def now() -> float:
    return time.time()


def rounded(us: int) -> int:
    return us // 1_000_000


class Sample:
    def __init__(self) -> None:
        self.at = clock()


def process_of(handler: Callable[..., Any]) -> type[Process[Any]]:
    return type("Sampled", (Process,), {"on_element": handler})


def at_clock(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.set_timer("x", int(time.time()))


def at_renamed_clock(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.set_timer("x", int(clock()))


def at_clock_by_a_function(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.set_timer("x", int(now()))


def at_clock_by_a_class(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.emit("x", Sample())


def at_now(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.state.at = datetime.now()


def at_now_of_a_zone(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.state.at = dt.datetime.now(dt.UTC)


def at_zone_of_the_host(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.state.at = datetime.fromtimestamp(element.time // 1_000_000).hour


def by_chance(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.state.at = random.random()


def by_chance_imported(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.state.at = chance()


def by_choice(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.state.at = random.choice([1, 2])


def by_uuid(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.state.at = str(uuid.uuid4())


def by_environment(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.state.at = os.environ["HOME"]


def by_file(self: Any, element: Element, ctx: Context[Any]) -> None:
    with open("x") as file:
        ctx.state.at = file.read()


def by_hash(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.state.at = hash(element.key) % 2


def by_import(self: Any, element: Element, ctx: Context[Any]) -> None:
    import socket

    ctx.state.at = socket.gethostname()


def through_a_set(self: Any, element: Element, ctx: Context[Any]) -> None:
    for name in {"a", "b"}:
        ctx.set_timer(name, element.time)


def through_a_named_set(self: Any, element: Element, ctx: Context[Any]) -> None:
    names = set(element.value) - {"a"}
    ctx.state.at = [name for name in names]


def through_a_set_of_the_module(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.state.at = list(NAMES)


def through_a_joined_set(self: Any, element: Element, ctx: Context[Any]) -> None:
    ctx.state.at = ",".join(NAMES.union(element.value))


def first_of_a_set(self: Any, element: Element, ctx: Context[Any]) -> None:
    names: set[str] = {*element.value.values()}
    ctx.state.at = names.pop()


def kept_in_itself(self: Any, element: Element, ctx: Context[Any]) -> None:
    self.last = element.time


def kept_in_a_list_of_itself(self: Any, element: Element, ctx: Context[Any]) -> None:
    self.settings.seen.append(element.time)


def kept_in_the_module(self: Any, element: Element, ctx: Context[Any]) -> None:
    SEEN["x"] = element.time


def kept_as_a_global(self: Any, element: Element, ctx: Context[Any]) -> None:
    global SEEN
    SEEN = {}


def a_generator(self: Any, element: Element, ctx: Context[Any]) -> Any:
    yield element


BAD = [
    value for name, value in list(globals().items()) if callable(value) and getattr(value, "__module__", "") == __name__
]
BAD = [value for value in BAD if value not in (now, rounded, Sample, process_of)]


@pytest.mark.parametrize("handler", BAD, ids=lambda handler: handler.__name__)
def test_what_would_make_a_replay_differ_is_refused_with_its_place(handler: Callable[..., Any]) -> None:
    found = faults(process_of(handler))
    assert found
    assert all(fault.file == "tests/unit/eventtime/test_handlers.py" for fault in found)
    assert all(fault.line > 0 for fault in found)


def test_the_line_is_that_of_the_fault() -> None:
    (fault,) = faults(process_of(at_clock))
    assert fault.line == at_clock.__code__.co_firstlineno + 1
    assert "time.time, the clock: use `ctx.time`" in str(fault)


def test_what_is_sure_to_be_the_same_passes() -> None:
    def handler(self: Any, element: Element, ctx: Context[Any]) -> None:
        time = element.time
        names = {"a", "b"} | set(element.value)
        for name in sorted(names):
            ctx.set_timer(name, rounded(time) + len(names) + min(names).count("a"))
        ctx.state.at = dt.datetime.fromtimestamp(rounded(time), dt.UTC).isoformat()
        ctx.state.seen.append(time)
        own = {}
        own["x"] = "a" in names
        ctx.state.own = [own, *element.value.items()]

    assert faults(process_of(handler)) == []


class Hidden(Process[Any]):
    """Everything that is wrong stands in another kind of method."""

    def __init__(self) -> None:
        self.salt = chance()

    @staticmethod
    def at_random() -> float:
        return float(numpy.random.rand())

    @classmethod
    def at_clock(cls) -> float:
        return time.time()

    @property
    def user(self) -> str:
        return os.environ["USER"]

    @cached_property
    def name(self) -> str:
        return str(uuid.uuid4())

    def on_element(self, element: Element, ctx: Context[Any]) -> None:
        for each in element.value.keys() & NAMES:
            ctx.set_timer(each, 1)


def test_methods_of_every_kind_are_looked_at() -> None:
    found = [fault.text.partition(":")[0].partition(",")[0] for fault in faults(Hidden)]
    assert found == [
        "uses chance",
        "uses numpy.random.rand",
        "uses time.time",
        "uses os.environ",
        "uses uuid.uuid4",
        "goes through a set in its order",
    ]


@pytest.mark.parametrize("process", [Offline, Battery, MovedWhileLocked, Sessions, Everything])
def test_jobs_that_come_along_pass(process: type[Process[Any]]) -> None:
    assert faults(process) == []
