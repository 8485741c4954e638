from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from include.errors import InvalidRecord, SettingsError, Transient
from include.lake.message import Message
from include.lake.parsing.custom import CheckedParser, CheckedTransformer
from include.lake.parsing.definition import ParserContext, ParserDefinition, build, configuration_hash
from include.lake.parsing.port import Parsed
from include.log.registry.memory import MemoryRegistry

ANY: TypeAdapter[ParserDefinition] = TypeAdapter(ParserDefinition)
CONTEXT = ParserContext(Path("/nowhere"), MemoryRegistry())
MS = 1_700_000_000_000
TIME = {"field": "ts", "unit": "ms"}
JSON = {"format": "json", "time": TIME}
MODULE = "lake_own_parsers"


def message(value: bytes | None) -> Message:
    return Message(5, None, value, (), MS, 1)


def built(definition: dict[str, Any], context: ParserContext = CONTEXT) -> Any:
    return build(ANY.validate_python(definition), context)


def hashed(definition: dict[str, Any], context: ParserContext = CONTEXT) -> str:
    return configuration_hash(ANY.validate_python(definition), context)


class Own:
    version = "1"

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def parse(self, message: Message) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def transform(self, message: Message) -> Any:
        return self.parse(message)


class Unversioned:
    def parse(self, message: Message) -> Parsed | None:
        return None


class Failing(Own):
    def __init__(self) -> None:
        raise RuntimeError("no")


def function() -> Own:
    return Own()


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        (JSON, b'{"ts": 1700000000000}'),
        ({"format": "messagepack", "time": TIME}, b"\x81\xa2ts\xcf" + MS.to_bytes(8, "big")),
        ({"format": "delimited", "time": {**TIME, "field": 2}}, b"a,1700000000000"),
        ({"format": "regex", "pattern": "ts=(?P<ts>[0-9]++)", "time": TIME}, b"x ts=1700000000000 y"),
        ({"format": "thrift", "time": {**TIME, "field": 1}}, b"\x0a\0\1" + MS.to_bytes(8, "big") + b"\0"),
        ({"format": "opaque"}, b"\xff"),
    ],
)
def test_each_format_names_a_message_by_its_day(definition: dict[str, Any], value: bytes) -> None:
    assert built(definition).parse(message(value)) == Parsed(value, ("dt=2023-11-14",), MS * 1000)


def test_avro_asks_the_registry() -> None:
    registry = MemoryRegistry()
    schema = {
        "type": "record",
        "name": "E",
        "fields": [{"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
    }
    registry.register("t-value", schema)
    definition = {"format": "avro", "time": {"field": "ts", "unit": "instant"}}
    value = b"\0\0\0\0\1" + bytes.fromhex("80a0abfef962")
    assert built(definition, ParserContext(Path(), registry)).parse(message(value)).names == ("dt=2023-11-14",)
    with pytest.raises(SettingsError, match="needs a schema registry"):
        built(definition, ParserContext(Path()))


def test_protobuf_reads_its_descriptor_set_from_the_deployment(tmp_path: Path) -> None:
    # file { message_type { name: "E" field { name: "ts" number: 1 label: optional type: int64 } } syntax: "proto3" }
    field = bytes.fromhex("0a027473180120012803")
    kind = b"\x0a\x01E\x12" + bytes([len(field)]) + field
    file = b"\x22" + bytes([len(kind)]) + kind + b"\x62\x06proto3"
    (tmp_path / "e.desc").write_bytes(b"\x0a" + bytes([len(file)]) + file)
    definition = {"format": "protobuf", "descriptor_set": "e.desc", "message": "E", "time": TIME}
    context = ParserContext(tmp_path)
    assert built(definition, context).parse(message(b"\x08\x80\xd0\x95\xff\xbc\x31")).names == ("dt=2023-11-14",)
    before = hashed(definition, context)
    (tmp_path / "e.desc").write_bytes(b"\x0a" + bytes([len(file)]) + file + b"\x0a\x00")
    assert hashed(definition, context) != before
    with pytest.raises(SettingsError, match="cannot be read"):
        built(definition, CONTEXT)


@pytest.mark.parametrize(
    "definition",
    [
        {"format": "xml"},
        {"format": "json"},
        {"format": "regex", "time": TIME, "pattern": "(?P<ts>(x+)+)"},
        {"format": "delimited", "time": TIME, "delimiter": "\n"},
        {"format": "delimited", "time": TIME, "delimiter": "||", "quote": '"'},
        {"format": "delimited", "time": TIME, "columns": ["a", "a"]},
        {"format": "opaque", "time": TIME},
        {"format": "class", "parser": {"name": "x"}},
        {"format": "class", "parser": {"name": "a:B"}, "time": TIME},
    ],
)
def test_a_definition_that_cannot_be_is_refused(definition: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ANY.validate_python(definition)


@pytest.mark.parametrize(
    "definition",
    [
        {"format": "delimited", "time": TIME},
        {"format": "regex", "time": TIME, "pattern": "(?P<x>.)"},
        {"format": "thrift", "time": TIME},
        {"format": "json", "time": {"field": "ts", "unit": "instant"}},
        {"format": "messagepack", "time": TIME, "drop": [{"field": "ts.x", "present": True}]},
    ],
)
def test_a_field_that_the_format_cannot_have_is_refused_when_the_parser_is_made(definition: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"deployment file|Declare their unit"):
        built(definition)


def own(answer: Any) -> Any:
    return built({"format": "class", "parser": {"name": f"{MODULE}:Own", "options": {"answer": answer}}})


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(MODULE)
    module.__dict__.update(Own=Own, Unversioned=Unversioned, Failing=Failing, function=function)
    monkeypatch.setitem(sys.modules, MODULE, module)


def test_a_users_class_is_a_parser() -> None:
    parsed = Parsed(b"x", ("dt=2023-11-14",), 5)
    batch = own(parsed).parse_all([message(b"y")])
    assert batch.kept == {("dt=2023-11-14",): [message(b"x")]}
    assert (batch.least_us, batch.most_us) == (5, 5)
    assert own(None).parse_all([message(b"y")]).filtered == 1


@pytest.mark.parametrize(
    "answer",
    [
        "x",
        ("x", ("a",), None),
        Parsed("x", ("a",)),  # type: ignore[arg-type]
        Parsed(b"", ["a"]),  # type: ignore[arg-type]
        Parsed(b"", ()),
        Parsed(b"", ("a/b",)),
        Parsed(b"", ("a",), 1.5),  # type: ignore[arg-type]
        Parsed(b"", ("a",), 10**30),
        Parsed(b"", (5,)),  # type: ignore[arg-type]
        ZeroDivisionError("1/0"),
    ],
)
def test_a_wrong_answer_or_a_failure_refuses_the_one_message(answer: Any) -> None:
    batch = own(answer).parse_all([message(b"y")])
    assert [each for each, _ in batch.refused] == [message(b"y")]


def test_errors_that_say_their_reaction_pass_through() -> None:
    with pytest.raises(Transient):
        own(Transient("down")).parse_all([message(b"y")])
    with pytest.raises(Transient):
        CheckedTransformer(Own(Transient("down"))).transform(message(b"y"))
    users: Any = Own(ValueError("x"))
    with pytest.raises(InvalidRecord):
        CheckedParser(users).parse(message(b"y"))


@pytest.mark.parametrize("answer", ["x", ValueError("x")])
def test_a_failing_transformer_refuses_the_one_message(answer: Any) -> None:
    transformer = {"name": f"{MODULE}:Own", "options": {"answer": answer}}
    assert len(built({**JSON, "transformer": transformer}).parse_all([message(b"{}")]).refused) == 1


def test_a_transformer_may_filter() -> None:
    assert built({**JSON, "transformer": {"name": f"{MODULE}:Own"}}).parse_all([message(b"{}")]).filtered == 1


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("no.such.module:Own", {}, "ModuleNotFoundError"),
        ("lake_own_parsers:Missing", {}, "AttributeError"),
        ("lake_own_parsers:Own", {"other": 1}, "TypeError"),
        ("lake_own_parsers:Failing", {}, "RuntimeError"),
        ("lake_own_parsers:Unversioned", {}, "version"),
        ("lake_own_parsers:function", {}, "no class"),
        ("builtins:dict", {}, "no method parse"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_at_load(name: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        built({"format": "class", "parser": {"name": name, "options": options}})


def test_the_hash_is_the_same_everywhere_and_of_what_is_declared_alone() -> None:
    assert hashed(JSON) == "0f09104ed987b6739c3c7b0039bd4fb6812d648df60e275a8c00d1960e904fc7"
    assert hashed({"time": {"unit": "ms", "field": ["ts"]}, "format": "json", "names": [{"by": "day"}]}) == hashed(JSON)


def test_the_hash_differs_with_each_declared_value_and_with_versions_of_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    definitions: list[dict[str, Any]] = [
        JSON,
        {**JSON, "names": [{"by": "hour"}]},
        {**JSON, "names": [{"by": "day", "zone": "Europe/Berlin"}]},
        {**JSON, "time": {**TIME, "ahead_s": 5}},
        {**JSON, "drop": [{"field": "a", "one_of": [1]}]},
        {**JSON, "drop": [{"field": "a", "one_of": [True]}]},
        {**JSON, "drop": [{"field": "a", "one_of": ["1"]}]},
        {**JSON, "transformer": {"name": f"{MODULE}:Own"}},
        {"format": "messagepack", "time": TIME},
        {"format": "class", "parser": {"name": f"{MODULE}:Own"}},
    ]
    hashes = [hashed(each) for each in definitions]
    assert len(set(hashes)) == len(hashes)
    monkeypatch.setattr(Own, "version", "2")
    assert [old != new for old, new in zip(hashes, map(hashed, definitions), strict=True)] == [False] * 7 + [
        True,
        False,
        True,
    ]
