"""Walks over Avro bodies by the schema that wrote them: only what is wanted is made an object.

A schema is compiled once to functions that know where its values end.
Schemas are fastavro's parsed ones, in which every name is a full one. Malformed bytes raise `ValueError`,
`IndexError`, `struct.error` or `RecursionError`, or end beyond the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count, groupby, repeat
from typing import Any

from include.lake.parsing.readers.avro_values import (
    FIXED_BYTES,
    Many,
    ReadValue,
    blocks,
    logical_value,
    plain_value,
    size_of,
    skip_longs,
    skip_sized,
    string_value,
)

__all__ = ["Take", "compile_walk"]

Skip = Callable[[bytes, int], int]
"""(data, where a value begins) → where it ends."""
Take = Callable[[bytes, int, list[Any]], int]
"""As `Skip`, and puts wanted values into their places."""


def compile_walk(schema: Any, tree: Mapping[str | int, Any], instants: frozenset[int]) -> Take:
    """The walk that fills in the values of `fields.plan`'s tree; a path that the schema lacks leaves None.

    Timestamps at the places `instants` become `Instant`, others stay numbers; dates become texts, decimals `Decimal`.
    """
    return _Compiler(schema, instants).take(schema, tree)


class _Compiler:
    def __init__(self, schema: Any, instants: frozenset[int]) -> None:
        self._instants = instants
        self._named: dict[str, Any] = {}
        self._records: dict[str, Skip] = {}
        self._collect(schema)

    def _collect(self, schema: Any) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch)
        elif isinstance(schema, dict):
            kind = schema["type"]
            if kind in ("record", "error", "enum", "fixed"):
                self._named[schema["name"]] = schema
            for below in (
                kind,
                schema.get("items"),
                schema.get("values"),
                *(f["type"] for f in schema.get("fields", ())),
            ):
                if isinstance(below, dict | list):
                    self._collect(below)

    def skip(self, schema: Any) -> Skip:
        """How to get over a value."""
        many = self._many(schema)
        if many is not None:
            return lambda data, at: many(data, at, 1)
        if isinstance(schema, list):
            return _skip_union([self.skip(branch) for branch in schema])
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind == "array":
            items = self._many(schema["items"]) or _repeated(self.skip(schema["items"]))
            return lambda data, at: blocks(data, at, items)
        if kind == "map":
            value = self.skip(schema["values"])
            entries = _repeated(lambda data, at: value(data, skip_sized(data, at, 1)))
            return lambda data, at: blocks(data, at, entries)
        return self._skip_named(schema if isinstance(schema, str) else schema["name"])

    def _many(self, schema: Any) -> Many | None:
        """How to get over several values of a simple type; None for another one."""
        if isinstance(schema, list):
            return None
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        whole = schema if isinstance(schema, dict) else {"type": schema}
        kind = whole["type"]
        if kind in FIXED_BYTES or kind == "fixed":
            size = whole["size"] if kind == "fixed" else FIXED_BYTES[kind]
            return lambda _, at, count: at + size * count
        if kind in ("int", "long", "enum"):
            return skip_longs
        return skip_sized if kind in ("string", "bytes") else None

    def _skips(self, schemas: Sequence[Any]) -> tuple[Skip, ...]:
        """How to get over values one after another; those of one simple type in one go."""
        found: list[Skip] = []
        for many, group in groupby(schemas, key=self._many):
            run = list(group)
            found += [self.skip(each) for each in run] if many is None else [_counted(many, len(run))]
        return tuple(found)

    def _skip_named(self, name: str) -> Skip:
        schema = self._named[name]
        if schema["type"] not in ("record", "error"):
            return self.skip(schema)
        if name not in self._records:
            # A type may be inside of itself: whoever meets it again before it is made calls it by its name.
            skips = self._records
            skips[name] = lambda data, at: skips[name](data, at)
            parts = self._skips([field["type"] for field in schema["fields"]])

            def record(data: bytes, at: int) -> int:
                for part in parts:
                    at = part(data, at)
                return at

            skips[name] = record
        return self._records[name]

    def take(self, schema: Any, tree: Any) -> Take:
        """How to get over a value with wanted ones in it; a list for `tree`: it is wanted itself."""
        if isinstance(tree, list):
            return self._leaf(schema, tree)
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        if isinstance(schema, list):
            branches = [self.take(branch, tree) for branch in schema]
            return lambda data, at, values: _take_branch(branches, data, at, values)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in ("record", "error"):
            return self._record(schema["fields"], tree)
        if kind in ("array", "map"):
            return self._container(schema, kind, tree)
        skip = self.skip(schema)
        return lambda data, at, _: skip(data, at)

    def _record(self, fields: Sequence[Any], tree: Mapping[str | int, Any]) -> Take:
        # Runs of what is not wanted, and what is, in turn.
        runs: list[tuple[tuple[Skip, ...], Take | None]] = []
        run: list[Any] = []
        for field in fields:
            if field["name"] in tree:
                runs.append((self._skips(run), self.take(field["type"], tree[field["name"]])))
                run = []
            else:
                run.append(field["type"])
        runs.append((self._skips(run), None))

        def record(data: bytes, at: int, values: list[Any]) -> int:
            for skips, wanted in runs:
                for skip in skips:
                    at = skip(data, at)
                if wanted is not None:
                    at = wanted(data, at, values)
            return at

        return record

    def _container(self, schema: Any, kind: str, tree: Mapping[str | int, Any]) -> Take:
        inner = schema["items" if kind == "array" else "values"]
        skip = self.skip(inner)
        takes = {step: self.take(inner, below) for step, below in tree.items()}

        def take(data: bytes, at: int, values: list[Any]) -> int:
            indexes = count()

            def entry(data: bytes, at: int) -> int:
                key: str | int = next(indexes)
                if kind == "map":
                    key, at = string_value(data, at)
                wanted = takes.get(key)
                return skip(data, at) if wanted is None else wanted(data, at, values)

            return blocks(data, at, _repeated(entry))

        return take

    def _leaf(self, schema: Any, places: Sequence[int]) -> Take:
        timed = [index for index in places if index in self._instants]
        rest = [index for index in places if index not in self._instants]
        value = self._value(schema, instant=False)
        instant = self._value(schema, instant=True) if timed else value

        def leaf(data: bytes, at: int, values: list[Any]) -> int:
            datum, end = value(data, at)
            for index in rest:
                values[index] = datum
            if timed:
                datum, _ = instant(data, at)
                for index in timed:
                    values[index] = datum
            return end

        return leaf

    def _value(self, schema: Any, *, instant: bool) -> ReadValue:
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        if isinstance(schema, list):
            branches = [self._value(branch, instant=instant) for branch in schema]
            return lambda data, at: _branch(branches, data, at)
        whole = schema if isinstance(schema, dict) else {"type": schema}
        kind = whole["type"]
        plain = plain_value(whole, kind)
        convert = logical_value(whole, instant=instant)
        if convert is None:
            return plain

        def converted(data: bytes, at: int) -> tuple[Any, int]:
            found, at = plain(data, at)
            return convert(found), at

        return converted


def _counted(many: Many, number: int) -> Skip:
    return lambda data, at: many(data, at, number)


def _repeated(one: Skip) -> Many:
    def many(data: bytes, at: int, number: int) -> int:
        for _ in repeat(None, number):
            at = one(data, at)
        return at

    return many


def _skip_union(branches: Sequence[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        byte = data[at]
        if byte < 0x80 and not byte & 1:
            return branches[byte >> 1](data, at + 1)
        index, at = size_of(data, at)
        return branches[index](data, at)

    return skip


def _branch(branches: Sequence[Callable[[bytes, int], Any]], data: bytes, at: int) -> Any:
    index, at = size_of(data, at)
    return branches[index](data, at)


def _take_branch(branches: Sequence[Take], data: bytes, at: int, values: list[Any]) -> int:
    index, at = size_of(data, at)
    return branches[index](data, at, values)
