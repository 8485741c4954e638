"""Types of states and outputs, states over versions, and what a call may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.eventtime.algorithm.buffer import WaitingElements, unpacked
from include.eventtime.algorithm.calls import Calls
from include.eventtime.algorithm.kept import KeptState, StateCodec
from include.eventtime.algorithm.order import ArrivedElement, key_of, key_text, time_of
from include.eventtime.model.duration import duration_us
from include.eventtime.model.process import Context, Element, EventTime, Process
from include.eventtime.model.typed import DataclassFields

pytestmark = pytest.mark.unit


@dataclass
class Many:
    flag: bool = False
    number: int = 0
    share: float = 0.0
    name: str = ""
    at: EventTime | None = None
    kind: Literal["a", "b"] = "a"
    names: list[str] = field(default_factory=list)
    levels: dict[str, list[int]] = field(default_factory=dict)


class Keeps(Process[Many]):
    state = Many
    outputs: ClassVar = {"many": Many}

    def on_element(self, element: Element, ctx: Context[Many]) -> None:
        for name, value in element.value.items():
            if name == "timer":
                ctx.set_timer("t", value)
            elif name == "emit":
                ctx.emit(value, ctx.state)
                ctx.state.names.append("later")
            elif name == "tuple":
                ctx.state.names = tuple(value)  # type: ignore[assignment]
            else:
                setattr(ctx.state, name, value)

    def on_timer(self, name: str, time: int, ctx: Context[Many]) -> None:
        ctx.state.number += 1
        ctx.set_timer("t", time)


def called(*values: str, kept: KeptState | None = None, until: int = 100) -> tuple[KeptState, list[Any], list[Any]]:
    kept = kept or KeptState()
    elements = [ArrivedElement(time, 0, 0, time, b'"k"', value.encode()) for time, value in enumerate(values)]
    return kept, *Calls(Keeps(None), ["t"]).advance(kept, b'"k"', elements, until)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("flag", 1),
        ("number", True),
        ("number", 1.0),
        ("number", 1 << 63),
        ("share", 1),
        ("share", float("nan")),
        ("share", float("inf")),
        ("name", None),
        ("name", "\udc00"),
        ("levels", {"\ud800": [1]}),
        ("at", "1"),
        ("kind", "c"),
        ("names", ("a",)),
        ("names", [1]),
        ("levels", {1: [1]}),
        ("levels", {"a": (1,)}),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_field(name: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=rf"Many\.{name} is "):
        DataclassFields(Many).values(Many(**{name: wrong}))


def test_values_of_their_types_pass() -> None:
    many = Many(True, -5, 0.5, "ü", 7, "b", ["x"], {"a": [1, 2]})
    assert DataclassFields(Many).plain(many)["levels"] == {"a": [1, 2]}
    assert DataclassFields(Many).times() == {"at"}


def test_types_that_cannot_be_kept_are_named() -> None:
    @dataclass
    class Odd:
        seen: set[str] = field(default_factory=set)

    class Plain:
        pass

    with pytest.raises(TypeError, match=r"Odd\.seen is set\[str\]: bool, int, float"):
        DataclassFields(Odd)
    with pytest.raises(TypeError, match="Plain is no dataclass"):
        DataclassFields(Plain)


@given(
    st.builds(
        Many,
        flag=st.booleans(),
        number=st.integers(-(1 << 63), (1 << 63) - 1),
        share=st.floats(allow_nan=False, allow_infinity=False),
        name=st.text(st.characters(exclude_categories=["Cs"])),
        at=st.none() | st.integers(0, 1 << 60),
        kind=st.sampled_from(["a", "b"]),
        names=st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
        levels=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.lists(st.integers(0, 9))),
    ),
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 1 << 60)),
    st.integers(0, 1 << 43),
    st.none() | st.integers(0, 1 << 60),
)
def test_what_is_kept_comes_back(state: Many, timers: dict[str, int], ordinal: int, index: int | None) -> None:
    codec = StateCodec(Keeps(None))
    kept = KeptState(codec.store(state), timers, ordinal, index)
    stored = kept.to_bytes()
    again = KeptState.from_bytes(stored)
    assert again == kept
    assert codec.load(again.state) == state


ELEMENT = st.builds(
    ArrivedElement,
    st.integers(-(1 << 60), 1 << 60) | st.integers(0, 2_000_000),
    st.integers(0, 99),
    st.integers(0, 1 << 31),
    st.integers(0, 1 << 60),
    st.text(max_size=5).filter(str.isprintable).map(key_text),
    st.binary(max_size=9),
)


@given(st.lists(ELEMENT, unique_by=lambda element: element[:4], max_size=30))
def test_elements_that_wait_come_back_from_rows_that_are_found_by_time(elements: list[ArrivedElement]) -> None:
    waiting = WaitingElements()
    for element in elements:
        waiting.add(element)
    rows = waiting.rows()
    assert sorted(each for row in rows.values() for each in unpacked(row)) == sorted(elements)
    assert waiting.first() == min((element.time for element in elements), default=None)
    for key, row in rows.items():
        times = [each.time for each in unpacked(row)]
        assert time_of(key) == min(times)
        assert max(times) - min(times) < 250_000
    ordered = sorted(rows)
    assert [time_of(key) for key in ordered] == sorted(map(time_of, rows))


def test_keys_that_are_numbers_and_texts_are_two() -> None:
    assert key_text(1) != key_text("1")
    assert [key_of(key_text(key)) for key in (1, "1", "ü")] == [1, "1", "ü"]


def test_a_key_with_nothing_to_keep_is_not_kept() -> None:
    kept, *_ = called('{"number": 1}', '{"number": 0}')
    assert kept.to_bytes() is None


def test_an_output_is_what_it_was_when_it_was_written() -> None:
    kept, emitted, failed = called('{"names": ["now"], "emit": "many"}')
    assert failed == []
    assert emitted[0].value["names"] == ["now"]
    assert StateCodec(Keeps(None)).load(kept.state).names == ["now", "later"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ('{"number": 2, "timer": "x"}', "TypeError: a timer has"),
        ('{"number": 2, "timer": 2305843009213693952}', "ValueError: timer 't' is set to 2,305,843,009,213,693,952"),
        ('{"number": 2, "emit": "other"}', "LookupError: the job has no output 'other': many"),
        ('{"number": 2, "tuple": ["a"]}', "TypeError: Many.names is ('a',), not list[str]"),
        ('{"number": "2"}', "TypeError: Many.number is '2', not int"),
    ],
)
def test_a_call_that_fails_leaves_nothing_behind(value: str, reason: str) -> None:
    kept, emitted, failed = called('{"number": 1, "timer": 90}', value, '{"name": "after"}', until=50)
    assert [(each.moment.time, each.reason[: len(reason)]) for each in failed] == [(1, reason)]
    assert emitted == []
    assert kept.timers == {"t": 90}
    state = StateCodec(Keeps(None)).load(kept.state)
    assert (state.number, state.name) == (1, "after")


def test_a_timer_that_sets_one_at_its_own_time_fails_instead_of_running_for_ever() -> None:
    kept, _, failed = called('{"timer": 5}')
    assert [(each.moment.time, each.element, each.moment.place) for each in failed] == [(5, None, ("k", "t"))]
    assert "is set by a timer and lies not after it" in failed[0].reason
    assert (kept.timers, kept.state) == ({}, None)


class Old(Process[Many]):
    state = Many
    state_version = 3

    def upgraded(self, version: int, fields: dict[str, Any]) -> dict[str, Any]:
        taken = dict(super().upgraded(version, fields))
        if version == 1:
            taken["number"] = fields["count"] + 1
        if version == 2:
            taken["number"] = "two"
        return taken


def test_a_state_of_an_earlier_version_is_taken_over_by_the_process() -> None:
    codec = StateCodec(Old(None))
    state = codec.load((1, {"count": 4, "name": "x", "gone": 1}))
    assert (state.number, state.name, state.flag) == (5, "x", False)
    with pytest.raises(Terminal, match="of an earlier version cannot be taken over"):
        codec.load((2, {"count": 4}))
    with pytest.raises(Terminal, match="is not of this version"):
        codec.load((4, {"number": 4}))
    with pytest.raises(Terminal, match="Raise `state_version`"):
        codec.load((3, {"number": 4}))


@pytest.mark.parametrize(
    ("text", "us"), [("5s", 5_000_000), ("1h30m", 5_400_000_000), ("2d", 172_800_000_000), ("7ms", 7_000)]
)
def test_durations_are_read_as_people_write_them(text: str, us: int) -> None:
    assert duration_us(text) == us


@pytest.mark.parametrize("text", ["", "5", "m5", "5 s", "-5s", "5s3"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        duration_us(text)
