from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord
from include.lake.parsing.fields import Instant, WantedValue
from include.lake.parsing.readers.descriptor_set import DescriptorSet
from include.lake.parsing.readers.protobuf_fields import protobuf_reader

KINDS: dict[str, tuple[int, st.SearchStrategy[Any]]] = {
    "double": (1, st.floats(allow_nan=False)),
    "float": (2, st.floats(width=32, allow_nan=False)),
    "int64": (3, st.integers(-(2**63), 2**63 - 1)),
    "uint64": (4, st.integers(0, 2**64 - 1)),
    "int32": (5, st.integers(-(2**31), 2**31 - 1)),
    "fixed64": (6, st.integers(0, 2**64 - 1)),
    "fixed32": (7, st.integers(0, 2**32 - 1)),
    "bool": (8, st.booleans()),
    "string": (9, st.text(max_size=200)),
    "bytes": (12, st.binary(max_size=200)),
    "uint32": (13, st.integers(0, 2**32 - 1)),
    "sfixed32": (15, st.integers(-(2**31), 2**31 - 1)),
    "sfixed64": (16, st.integers(-(2**63), 2**63 - 1)),
    "sint32": (17, st.integers(-(2**31), 2**31 - 1)),
    "sint64": (18, st.integers(-(2**63), 2**63 - 1)),
}
MESSAGE, ENUM, GROUP = 11, 14, 10


def field(message: Any, name: str, number: int, kind: int, type_name: str = "", **more: Any) -> Any:
    added = message.field.add(name=name, number=number, type=kind, label=more.pop("label", 1), **more)
    if type_name:
        added.type_name = type_name
    return added


def described(syntax: str) -> descriptor_pb2.FileDescriptorSet:
    """Event (with every kind, an inner message, an enum, a timestamp, repeated ones), after another message."""
    found = descriptor_pb2.FileDescriptorSet()
    stamp = found.file.add(name="google/protobuf/timestamp.proto", package="google.protobuf", syntax="proto3")
    message = stamp.message_type.add(name="Timestamp")
    field(message, "seconds", 1, 3)
    field(message, "nanos", 2, 5)
    file = found.file.add(name=f"{syntax}.proto", package=f"shop.{syntax}", syntax=syntax, dependency=[stamp.name])
    file.message_type.add(name="Other")
    event = file.message_type.add(name="Event")
    inner = event.nested_type.add(name="Inner")
    enum = event.enum_type.add(name="Level")
    for number, name in enumerate(("NONE", "INFO")):
        enum.value.add(name=name, number=number)
    for message in (event, inner):
        for number, (name, (kind, _)) in enumerate(KINDS.items(), start=10):
            field(message, name, number, kind)
    own = f".shop.{syntax}.Event"
    field(event, "inner", 1, MESSAGE, f"{own}.Inner")
    field(event, "level", 2, ENUM, f"{own}.Level")
    field(event, "at", 3, MESSAGE, ".google.protobuf.Timestamp")
    field(event, "many", 4, 3, label=3)
    event.oneof_decl.add(name="choice")
    field(event, "chosen", 5, 3, oneof_index=0)
    return found


SETS = {syntax: described(syntax) for syntax in ("proto2", "proto3")}
TYPES = {syntax: DescriptorSet.parse(found.SerializeToString()) for syntax, found in SETS.items()}


def factory(syntax: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in SETS[syntax].file:
        pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{syntax}.Event"))


EVENTS = {syntax: factory(syntax) for syntax in SETS}


def read(syntax: str, data: bytes, *paths: str, time: bool = False, framing: Any = "none") -> list[Any]:
    wanted = [WantedValue(tuple(path.split(".")), time, instant=time and path == "at") for path in paths]
    return list(protobuf_reader(wanted, TYPES[syntax], f"shop.{syntax}.Event", framing)(data))


@settings(max_examples=40)
@given(
    syntax=st.sampled_from(sorted(SETS)),
    content=st.fixed_dictionaries({}, optional={name: values for name, (_, values) in KINDS.items()}),
)
def test_values_are_those_that_googles_reader_gives(syntax: str, content: dict[str, Any]) -> None:
    event = EVENTS[syntax](many=[1, 2, 1 << 40], **content)
    event.inner.MergeFrom(type(event.inner)(**content))
    data = event.SerializeToString(deterministic=True)
    paths = [*KINDS, *(f"inner.{name}" for name in KINDS)]
    proto2 = syntax == "proto2"
    expected = [content.get(name) if proto2 else getattr(event, name) for name in KINDS]
    assert read(syntax, data, *paths) == expected * 2


@pytest.mark.parametrize("syntax", sorted(SETS))
def test_an_absent_event_time_is_missing_and_never_zero(syntax: str) -> None:
    assert read(syntax, b"", "int64", "inner.int64", "at", "chosen", time=True) == [None] * 4


def test_absent_fields_of_proto3_have_their_zero_where_their_message_is() -> None:
    event = EVENTS["proto3"]()
    paths = ("string", "level", "inner.bool", "chosen")
    assert read("proto3", event.SerializeToString(), *paths) == ["", "NONE", None, None]
    event.inner.SetInParent()
    assert read("proto3", event.SerializeToString(), *paths) == ["", "NONE", False, None]
    assert read("proto2", b"", *paths) == [None] * 4


def test_enums_are_names_where_they_have_one() -> None:
    assert read("proto3", EVENTS["proto3"](level=1).SerializeToString(), "level") == ["INFO"]
    assert read("proto3", EVENTS["proto3"](level=7).SerializeToString(), "level") == [7]
    assert read("proto3", EVENTS["proto3"](level=-1).SerializeToString(), "level") == [-1]


@pytest.mark.parametrize("seconds", [1_700_000_000, -5, 0])
def test_a_timestamp_is_an_instant(seconds: int) -> None:
    event = EVENTS["proto3"]()
    event.at.seconds, event.at.nanos = seconds, 5
    assert read("proto3", event.SerializeToString(), "at", time=True) == [Instant(seconds * 10**9 + 5)]


def test_the_last_value_counts_and_parts_of_a_message_are_one() -> None:
    parts = [EVENTS["proto3"](int64=1), EVENTS["proto3"](int64=2)]
    parts[0].inner.int64, parts[0].at.seconds = 5, 7
    parts[1].inner.string, parts[1].at.nanos = "x", 3
    data = b"".join(part.SerializeToString() for part in parts)
    whole = EVENTS["proto3"].FromString(data)
    assert (whole.inner.int64, whole.at.seconds, whole.at.nanos) == (5, 7, 3)
    assert read("proto3", data, "int64", "inner.int64", "inner.string", "at") == [2, 5, "x", Instant(7 * 10**9 + 3)]


def test_groups_are_passed_over() -> None:
    assert read("proto2", bytes.fromhex("a3060801ab06ac06a4066005"), "int64") == [5]


def test_confluents_framing_names_the_message() -> None:
    body = EVENTS["proto3"](int64=5).SerializeToString()
    # Count and index as zigzag: one index, 1: the second message of its file.
    assert read("proto3", b"\0\0\0\0\7\2\2" + body, "int64", framing="confluent") == [5]
    for head in (b"\0\0\0\0\7\0", b"\0\0\0\0\7\4\2\0", b"\1\0\0\0\7\2\2", b"\0\0\0"):
        with pytest.raises(InvalidRecord):
            read("proto3", head + body, "int64", framing="confluent")


@pytest.mark.parametrize(
    "data",
    ["60", "65", "61ffff", "0a05", "00", "07", "66", "a306", "a306a406ff", "a306ab06", "6dffffff", "9a0102c32852"],
)
def test_bytes_that_are_no_message_are_refused(data: str) -> None:
    with pytest.raises(InvalidRecord):
        read("proto2", bytes.fromhex(data), "int64", "inner.int64")


@pytest.mark.parametrize("path", ["none", "inner", "many", "int64.x", "inner.none", "at.seconds.x"])
def test_paths_that_lead_to_no_single_value_are_refused_at_once(path: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read("proto3", b"", path)


def test_a_timestamp_and_unit_instant_belong_together() -> None:
    for wanted in (WantedValue(("at",), time=True), WantedValue(("int64",), time=True, instant=True)):
        with pytest.raises(ValueError, match="unit"):
            protobuf_reader([wanted], TYPES["proto3"], "shop.proto3.Event", "none")


def test_a_message_that_the_set_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(ValueError, match=r"shop\.proto3\.Event\.Inner"):
        protobuf_reader([], TYPES["proto3"], "shop.Order", "none")


@pytest.mark.parametrize("data", [b"", b"xyz", b"\x08\x01", b"\x0a\x02\x20\x01", b"\x0a\xff"])
def test_bytes_that_are_no_descriptor_set_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        DescriptorSet.parse(data)


def test_editions_are_refused_as_their_presence_is_told_elsewhere() -> None:
    found = descriptor_pb2.FileDescriptorSet()
    found.file.add(name="a.proto", syntax="editions").message_type.add(name="A")
    with pytest.raises(ValueError, match="editions"):
        DescriptorSet.parse(found.SerializeToString())


def test_a_field_without_a_type_is_refused_and_not_taken_for_a_double() -> None:
    files = described("proto3")
    files.file[0].message_type[0].field[0].ClearField("type")
    with pytest.raises(ValueError, match="has no type"):
        DescriptorSet.parse(files.SerializeToString())
