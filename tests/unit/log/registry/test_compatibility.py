"""Which schema reads what another wrote, by Avro's rules."""

from __future__ import annotations

from typing import Any

import pytest

from include.log.registry.compatibility import unreadable


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def one(kind: Any, **more: Any) -> dict[str, Any]:
    return record({"name": "a", "type": kind, **more})


MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
LETTERS = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
TREE = record({"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Tree"], "default": None}, name="Tree")


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ("string", "string"),
        ("long", "int"),
        ("double", "float"),
        (one(["null", "long"]), one("int")),
        (one(["null", "string"]), one(["null", "string"])),
        (record(), one("int")),
        (one("int", default=3), record()),
        (one("string", aliases=["b"]), record({"name": "b", "type": "string"})),
        (one({"type": "array", "items": "long"}), one({"type": "array", "items": "int"})),
        (one({"type": "map", "values": "double"}), one({"type": "map", "values": "int"})),
        (one(MONEY), one(MONEY)),
        (one({**LETTERS, "symbols": ["A", "B", "C"]}), one(LETTERS)),
        (one({**LETTERS, "symbols": ["A"], "default": "A"}), one(LETTERS)),
        (TREE, TREE),
        (one({"type": "fixed", "name": "F", "size": 4}), one({"type": "fixed", "name": "F", "size": 4})),
        (record({"name": "x", "type": one("int")}, {"name": "y", "type": "R"}, name="O"),) * 2,
    ],
)
def test_readable(reader: Any, writer: Any) -> None:
    assert unreadable(reader, writer) == ""


@pytest.mark.parametrize(
    ("reader", "writer", "reason"),
    [
        ("int", "long", "/: int does not read long"),
        (one("int"), one("string"), "/a: int does not read string"),
        (one("int"), one(["null", "int"]), "/a: int does not read null"),
        (one("int"), record(), "/a: new field without a default"),
        (one("int"), {**one("int"), "name": "Other"}, "/: R does not read Other"),
        (one({"type": "array", "items": "int"}), one({"type": "array", "items": "long"}), "/a[]: int"),
        (one({"type": "map", "values": "int"}), one({"type": "map", "values": "string"}), "/a{}: int"),
        (one({**MONEY, "scale": 3}), one(MONEY), "/a: bytes"),
        (one({**LETTERS, "symbols": ["A"]}), one(LETTERS), "symbols ['B'] are gone"),
        (one({"type": "fixed", "name": "F", "size": 4}), one({"type": "fixed", "name": "F", "size": 5}), "/a: F"),
        (one(["null", "int"]), one(["null", "string"]), "[null, int] does not read string"),
    ],
)
def test_not_readable(reader: Any, writer: Any, reason: str) -> None:
    assert reason in unreadable(reader, writer)
