"""Bytes that are damaged anywhere are refused or read, and never anything else."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from include.lake.message import Message
from include.lake.parsing.definition import ParserContext, ParserDefinition, build
from include.log.registry.memory import MemoryRegistry

MS = 1_700_000_000_000
ANY: TypeAdapter[ParserDefinition] = TypeAdapter(ParserDefinition)
TEXT = b"some text of a message"
STAMP = bytes.fromhex("80a0abfef962")
REGISTRY = MemoryRegistry()
REGISTRY.register(
    "topic-value",
    {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "names", "type": {"type": "array", "items": ["null", "string", "Event"]}},
            {"name": "ts", "type": "long"},
            {"name": "country", "type": ["null", "string"]},
            {"name": "map", "type": {"type": "map", "values": "int"}},
        ],
    },
)
FIELD = bytes.fromhex("0a027473180120012803")
TYPE = b"\x0a\x01E\x12" + bytes([len(FIELD)]) + FIELD
FILE = b"\x22" + bytes([len(TYPE)]) + TYPE
SET = b"\x0a" + bytes([len(FILE)]) + FILE

SAMPLES: list[tuple[dict[str, Any], bytes]] = [
    ({"format": "json"}, b'{"ts": 1700000000000, "country": "de", "a": [1, {"b": null}], "c": "\xc3\xbc"}'),
    (
        {"format": "avro"},
        b"\0\0\0\0\1" + b"\x04\x02" + b"\x2c" + TEXT + b"\x00\x00" + STAMP + b"\x02\x04de" + b"\x01\x06\x02a\x05\x00",
    ),
    (
        {"format": "messagepack"},
        b"\x84\xa2ts\xcf"
        + MS.to_bytes(8, "big")
        + b"\xa7country\xd9\x02de\xa1l\xdc\x00\x02\xc0\xc3\x05\xd7\xff"
        + b"\0" * 8,
    ),
    ({"format": "delimited", "columns": ["country", "ts"], "quote": '"'}, b'"de",1700000000000\n'),
    ({"format": "regex", "pattern": r"^(?P<country>[a-z]++) .*?(?P<ts>[0-9]++)"}, b"de and then 1700000000000"),
    (
        {"format": "thrift", "ts": 1, "country": 2},
        b"\x0a\0\1" + MS.to_bytes(8, "big") + b"\x0b\0\2\0\0\0\2de" + b"\x0d\0\3\x0b\x08\0\0\0\1\0\0\0\1k\0\0\0\5\0",
    ),
    (
        {"format": "thrift", "protocol": "compact", "ts": 1, "country": 2},
        b"\x16" + STAMP + b"\x18\x02de\x1b\x01\x85\x01k\x0a\x19\x25\x02\x04\0",
    ),
    (
        {"format": "protobuf", "descriptor_set": "e.desc", "message": "E", "country": "ts"},
        b"\x08\x80\xd0\x95\xff\xbc\x31\x12\x02de",
    ),
]


@pytest.mark.parametrize(
    ("definition", "sample"), SAMPLES, ids=lambda value: value["format"] if isinstance(value, dict) else ""
)
def test_damage_is_refused_or_read_and_never_anything_else(
    definition: dict[str, Any], sample: bytes, tmp_path: Path
) -> None:
    (tmp_path / "e.desc").write_bytes(SET)
    rest = {name: value for name, value in definition.items() if name not in ("ts", "country")}
    declared = {
        **rest,
        "time": {"field": definition.get("ts", "ts"), "unit": "ms", "behind_s": None, "ahead_s": None},
        "names": [{"by": "day"}, {"by": "field", "name": "country", "field": definition.get("country", "country")}],
    }
    parser = build(ANY.validate_python(declared), ParserContext(tmp_path, REGISTRY))
    dice = random.Random(7)
    damages: list[Callable[[bytearray], None]] = [
        lambda data: data.__setitem__(dice.randrange(len(data)), dice.randrange(256)),
        lambda data: data.insert(dice.randrange(len(data) + 1), dice.randrange(256)),
        lambda data: data.__delitem__(dice.randrange(len(data))),
        lambda data: data.__delitem__(slice(dice.randrange(len(data)), None)),
        lambda data: data.extend(dice.randrange(256) for _ in range(3)),
    ]
    values = [sample]
    for _ in range(1500):
        data = bytearray(sample)
        for _ in range(dice.randrange(1, 4)):
            if data:
                dice.choice(damages)(data)
        values.append(bytes(data))
    messages = [Message(offset, None, value, (), MS, 1) for offset, value in enumerate(values)]
    batch = parser.parse_all(messages)
    assert not batch.refused or batch.refused[0][0].offset > 0
    assert sum(map(len, batch.kept.values())) + len(batch.refused) == len(messages)
    for _, refused in batch.refused:
        assert refused.details["reason"]
        text = str(refused)
        assert len(text.encode()) < 1000
        assert "\n" not in text
