"""Parsers as the deployment file declares them, by `format`; their hash; and how to make one.

```yaml
parser:
  format: json
  time: {field: payload.created_at, unit: ms}
  names: [{by: hour, zone: Europe/Berlin}, {by: field, name: country, field: user.country}]
  drop: [{field: type, one_of: [ping, heartbeat]}]
```
gives `dt=2026-11-21/hr=10/country=de`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from include.errors import SettingsError
from include.lake.parsing.custom import CheckedParser, CheckedTransformer, load
from include.lake.parsing.event_time import EventTimeField
from include.lake.parsing.field_parser import FieldParser
from include.lake.parsing.fields import ReadFields, WantedValue
from include.lake.parsing.port import Parser
from include.lake.parsing.readers.avro_fields import avro_reader
from include.lake.parsing.readers.delimited_fields import delimited_reader
from include.lake.parsing.readers.descriptor_set import DescriptorSet
from include.lake.parsing.readers.json_fields import JsonFraming, json_reader
from include.lake.parsing.readers.message_pack_fields import message_pack_reader
from include.lake.parsing.readers.protobuf_fields import ProtobufFraming, protobuf_reader
from include.lake.parsing.readers.regex_fields import check_pattern, regex_reader
from include.lake.parsing.readers.thrift_fields import ThriftProtocol, thrift_reader
from include.lake.parsing.rules import ClassReference, ParserRules
from include.lake.parsing.zones import RULES
from include.log.ports import SchemaRegistry
from include.settings.deployment import Strict

__all__ = [
    "AvroParser",
    "CustomParser",
    "DelimitedParser",
    "JsonParser",
    "MessagePackParser",
    "OpaqueParser",
    "ParserContext",
    "ParserDefinition",
    "ProtobufParser",
    "RegexParser",
    "ThriftParser",
    "build",
    "configuration_hash",
]

_TYPED: Final = ("avro", "messagepack", "protobuf")
"""Formats whose values can say that they are times, and of which unit."""


@dataclass(frozen=True, slots=True)
class ParserContext:
    """What parsers are made with. `folder`: that of the deployment, where their files lie."""

    folder: Path
    registry: SchemaRegistry | None = None


class JsonParser(ParserRules):
    """JSON objects; fields by names of members and indexes of arrays."""

    format: Literal["json"]
    framing: JsonFraming = "none"
    """none: the text alone; confluent: 0x00 and a schema id of 4 bytes in front of it."""


class AvroParser(ParserRules):
    """Avro in the Confluent wire format; fields by names, keys of maps and indexes of arrays."""

    format: Literal["avro"]


class MessagePackParser(ParserRules):
    """MessagePack; fields by keys of maps (text, or whole numbers) and indexes of arrays."""

    format: Literal["messagepack"]


class DelimitedParser(ParserRules):
    """Delimited text; fields are numbers of columns, from 1, or names of `columns`."""

    format: Literal["delimited"]
    delimiter: str = Field(default=",", min_length=1, max_length=8)
    """Between values."""
    columns: tuple[str, ...] = Field(default=(), description="names of all columns, when messages have exactly these")
    quote: str | None = Field(default=None, min_length=1, max_length=1, description="what values may be quoted with")

    @model_validator(mode="after")
    def _splits(self) -> DelimitedParser:
        if self.quote is not None and (len(self.delimiter) != 1 or self.quote == self.delimiter):
            raise ValueError("with quotes, the delimiter is one other sign")
        if set(self.delimiter) & set("\r\n") or len(set(self.columns)) != len(self.columns):
            raise ValueError("a delimiter is no line end, and columns have different names")
        return self


class RegexParser(ParserRules):
    """A regular expression (Python's, over bytes); fields are its named groups."""

    format: Literal["regex"]
    pattern: str = Field(min_length=1, max_length=2000)
    """The expression."""
    most_bytes: int = Field(default=8192, ge=1, le=1 << 20, description="longer messages are refused")

    @model_validator(mode="after")
    def _compiles(self) -> RegexParser:
        check_pattern(self.pattern, self.most_bytes)
        return self


class ThriftParser(ParserRules):
    """Thrift structs; fields are paths of field ids, as in 1.3."""

    format: Literal["thrift"]
    protocol: ThriftProtocol = "binary"
    """How structs are written."""


class ProtobufParser(ParserRules):
    """Protobuf messages; fields by names."""

    format: Literal["protobuf"]
    descriptor_set: str = Field(min_length=1, description="file of `protoc --include_imports -o`, in the deployment")
    message: str = Field(min_length=1, description="full name, as in shop.v1.Order")
    framing: ProtobufFraming = "none"
    """none: the message alone; confluent: 0x00, schema id, the message's index in its file in front of it."""


class OpaqueParser(ParserRules):
    """Looks at no content: names by offset, and by the Kafka timestamp."""

    format: Literal["opaque"]
    time: EventTimeField | None = EventTimeField()

    @model_validator(mode="after")
    def _closed(self) -> OpaqueParser:
        if self.wanted():
            raise ValueError("format: opaque reads no fields")
        return self


class CustomParser(Strict):
    """A class of the user's that is a `Parser` itself; only `parse` and `version` are asked of it."""

    format: Literal["class"]
    parser: ClassReference
    """The class."""


ParserDefinition = Annotated[
    JsonParser
    | AvroParser
    | MessagePackParser
    | DelimitedParser
    | RegexParser
    | ThriftParser
    | ProtobufParser
    | OpaqueParser
    | CustomParser,
    Field(discriminator="format"),
]


def build(definition: ParserDefinition, context: ParserContext) -> Parser:
    """The parser; `SettingsError` when its files, classes or fields are not there."""
    if isinstance(definition, CustomParser):
        return CheckedParser(load(definition.parser, "parse"))
    if definition.time and definition.time.unit == "instant" and definition.format not in _TYPED:
        raise SettingsError(
            f"times of format {definition.format} do not say their unit",
            allowed=list(_TYPED),
            fix="Declare their unit.",
        )
    reference = definition.transformer
    transformer = CheckedTransformer(load(reference, "transform")) if reference else None
    try:
        return FieldParser(definition, _reader(definition, context), transformer)
    except ValueError as error:
        raise SettingsError(
            f"the parser of format {definition.format} cannot be made: {error}",
            fix="Correct it in the deployment file.",
        ) from None


def configuration_hash(definition: ParserDefinition, context: ParserContext) -> str:
    """SHA-256 (hex) of all that decides on the parser's answers.

    That is the definition without what stands at its default, the version of the code or of the user's classes, the
    content of a descriptor set, and the time zones' rules where a zone other than UTC is declared.
    """
    declared = definition.model_dump(mode="json", exclude_defaults=True)
    parts: dict[str, Any] = {"parser": declared, "version": build(definition, context).version}
    if isinstance(definition, ParserRules) and definition.transformer is not None:
        parts["transformer"] = load(definition.transformer, "transform").version
    if isinstance(definition, ProtobufParser):
        parts["descriptor_set"] = hashlib.sha256(_file(definition.descriptor_set, context)).hexdigest()
    if _zoned(declared):
        parts["zones"] = RULES
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _zoned(declared: Any) -> bool:
    if isinstance(declared, dict):
        return "zone" in declared or any(_zoned(value) for value in declared.values())
    return isinstance(declared, list) and any(_zoned(value) for value in declared)


def _reader(definition: ParserRules, context: ParserContext) -> Callable[[Sequence[WantedValue]], ReadFields]:
    match definition:
        case JsonParser():
            return lambda wanted: json_reader(wanted, definition.framing)
        case AvroParser():
            registry = context.registry
            if registry is None:
                raise ValueError("it needs a schema registry")
            return lambda wanted: avro_reader(wanted, registry)
        case MessagePackParser():
            return message_pack_reader
        case DelimitedParser():
            return lambda wanted: delimited_reader(wanted, definition.delimiter, definition.columns, definition.quote)
        case RegexParser():
            return lambda wanted: regex_reader(wanted, definition.pattern, definition.most_bytes)
        case ThriftParser():
            return lambda wanted: thrift_reader(wanted, definition.protocol)
        case ProtobufParser():
            types = DescriptorSet.parse(_file(definition.descriptor_set, context))
            return lambda wanted: protobuf_reader(wanted, types, definition.message, definition.framing)
        case _:
            return lambda _wanted: lambda _data: ()


def _file(name: str, context: ParserContext) -> bytes:
    try:
        return (context.folder / name).read_bytes()
    except OSError as error:
        raise SettingsError(
            "a file of the deployment cannot be read",
            file=str(context.folder / name),
            reason=str(error),
            fix="Put it there.",
        ) from error
