"""Rows in Avro: what a stored row brings to outputs, and the join key it has, cut from its bytes by its own schema.

A row is kept as its writer wrote it. Each schema that a row was written by gets a plan once: which runs of its fields
are copied, which fields need another branch number, or another type. A field that an older schema lacks is null.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

import fastavro
from fastavro.schema import expand_schema
from typing_extensions import override

from include.errors import InvalidRecord, SettingsError
from include.join.algorithm.row import OutputShare, Row
from include.join.algorithm.shape import JoinShape, KeyFrame, Projection
from include.join.config.definition import JoinFile
from include.join.config.fields import FieldPlan
from include.join.config.schema import InputSchema, OutputSchemas, bare
from include.join.native import WHY_NOT, compiled
from include.join.rows.pieces import AS_IS, FieldPiece, piece_of
from include.record.fields import EnvelopeFields, Fields
from include.record.native.program import steps_of

if TYPE_CHECKING:
    from include.join.native._join import Cut, JoinKey, Projector

__all__ = ["AvroJoin", "AvroRows"]

_HEAD: Final = 5
_NULL: Final = b"\x00"
_ABSENT: Final = "null"


@dataclass(frozen=True, slots=True)
class _Source:
    """A field of an output: place in the record that has it (-1: none has), and what makes it the output's."""

    of_key: bool
    place: int
    piece: FieldPiece


class AvroRows:
    """The rows of one input. Not safe to use from several threads.

    Args:
        number: position of the input.
        join: the join's file.
        plan: which field goes where.
        newest: the schema that the output's types were taken from.
        output: the output's schemas.
        schema_of: a schema of the registry by its id.
    """

    def __init__(
        self,
        number: int,
        join: JoinFile,
        plan: FieldPlan,
        newest: InputSchema,
        output: OutputSchemas,
        schema_of: Callable[[int], Mapping[str, Any]],
    ) -> None:
        self._number, self._definition = number, join.join[number]
        self._plan, self._newest = plan, newest
        self._schema_of = schema_of
        values = {field["name"]: field["type"] for field in output.value["fields"]}
        keys = {field["name"]: field["type"] for field in output.key["fields"]}
        self._shown = [(field, values[name]) for field, name in plan.values[number]]
        self._grouped = [(each.field, keys[each.name]) for each in plan.key if each.input == number]
        self._plans: dict[tuple[int, bytes], _Plan] = {}
        self._rows: dict[int, Fields] = {}
        self._keys: dict[bytes, Fields] = {}
        self._by_key: dict[bytes, _JoinKey] = {}
        self._decimals = [_is_decimal(bare(newest.type_of(field))) for field in self._definition.join_keys]
        self.fixed = newest.holds(self._definition.join_keys)

    def entry(self, key: bytes, row: Row) -> OutputShare | None:
        """What the row brings; None when `where` leaves it out. Raises `InvalidRecord` for bytes that are no row."""
        found = self._plan_of(row.schema_id, key)
        return found.entry(key, row)

    def projector(self, key: bytes, kept: bytes) -> Projector | None:
        """What reads rows of this kind, under keys of this kind, in C; None for the Python way."""
        return self._plan_of(Row.from_bytes(kept).schema_id, key).projector

    def join_key(self, key: bytes, schema_id: int, body: bytes) -> bytes | None:
        """The values of the join key, one behind the other; None when one of them is null."""
        return self._joined(schema_id, key).values(key, body)

    def join_key_of(self, key: bytes) -> bytes | None:
        """The same from the key alone, of an input that is `fixed`."""
        return self._by_key_of(key).values(key, b"")

    def compiled_join_key(self, schema_id: int, key: bytes) -> JoinKey | None:
        """What finds `join_key` in C; None for the Python way. Raises `InvalidRecord` for a key that is none."""
        return self._joined(schema_id, key).compiled

    def _joined(self, schema_id: int, key: bytes) -> _JoinKey:
        return self._by_key_of(key) if self.fixed else self._plan_of(schema_id, key).joined

    def _by_key_of(self, key: bytes) -> _JoinKey:
        head = key[:_HEAD]
        join_key = self._by_key.get(head)
        if join_key is None:
            keys = self._fields_of_keys(head)
            types, joined = _types(keys), []
            for field in self._definition.join_keys:
                piece = piece_of(types[field], ["null", bare(self._newest.type_of(field))])
                joined.append(_Source(True, keys.names.index(field), piece))
            join_key = self._by_key[head] = _JoinKey(joined, self._decimals, None, keys)
        return join_key

    def group(self, key: bytes, schema_id: int, body: bytes) -> bytes:
        """The row's part of the output's key, in one piece."""
        return b"".join(self._plan_of(schema_id, key).group(key, body))

    def absent(self) -> OutputShare:
        """What stands for no row."""
        return OutputShare(None, b"", (_NULL,) * len(self._grouped), _NULL * len(self._shown))

    def images_of(self, schema_id: int) -> EnvelopeFields:
        """What takes envelopes of this schema apart."""
        return EnvelopeFields(self._schema_of(schema_id))

    def _plan_of(self, schema_id: int, key: bytes) -> _Plan:
        head = key[:_HEAD]
        found = self._plans.get((schema_id, head))
        if found is None:
            found = self._plans[schema_id, head] = self._make(schema_id, head)
        return found

    def _make(self, schema_id: int, head: bytes) -> _Plan:
        rows, keys = self._fields_of_rows(schema_id), self._fields_of_keys(head)
        types = {of_key: _types(fields) for of_key, fields in ((False, rows), (True, keys))}

        def source(field: str, shown: Any, *, key_first: bool) -> _Source:
            for of_key in (key_first, not key_first):
                if field in types[of_key]:
                    place = (keys if of_key else rows).names.index(field)
                    return _Source(of_key, place, piece_of(types[of_key][field], shown))
            return _Source(False, -1, piece_of(_ABSENT, shown))

        joined = [
            source(field, ["null", bare(self._newest.type_of(field))], key_first=False)
            for field in self._definition.join_keys
        ]
        return _Plan(
            rows,
            keys,
            [source(field, shown, key_first=False) for field, shown in self._shown],
            [source(field, shown, key_first=True) for field, shown in self._grouped],
            _JoinKey(joined, self._decimals, rows, keys),
            [
                (
                    source(field, ["null", bare(self._newest.type_of(field))], key_first=False),
                    frozenset(_encoded(bare(self._newest.type_of(field)), value) for value in wanted),
                )
                for field, wanted in self._definition.where.items()
            ],
        )

    def _fields_of_rows(self, schema_id: int) -> Fields:
        found = self._rows.get(schema_id)
        if found is None:
            schema = self._schema_of(schema_id)
            found = self._rows[schema_id] = EnvelopeFields(schema).row if self._newest.change else Fields(schema)
        return found

    def _fields_of_keys(self, head: bytes) -> Fields:
        fields = self._keys.get(head)
        if fields is None:
            if len(head) < _HEAD or head[0]:
                raise InvalidRecord("key is not in the Confluent wire format", reason="magic", head=head.hex())
            fields = self._keys[head] = Fields(self._schema_of(int.from_bytes(head[1:], "big")))
        return fields


class _JoinKey:
    """The fields of a join key, of rows of one schema under keys of one schema; without `rows`, in the keys alone."""

    def __init__(self, sources: Sequence[_Source], decimals: Sequence[bool], rows: Fields | None, keys: Fields) -> None:
        self._sources, self._decimals, self._rows, self._keys = sources, decimals, rows, keys
        self.compiled = self._compiled()
        """The same in C; None where a part of it is beyond that."""

    def _compiled(self) -> JoinKey | None:
        rows = None if self._rows is None else steps_of(self._rows.schema)
        keys = steps_of(self._keys.schema)
        # Decimals are brought to one length before they are compared.
        if WHY_NOT or keys is None or (rows is None and self._rows is not None) or any(self._decimals):
            return None
        from include.join.native._join import JoinKey

        return JoinKey(rows, keys, [_compiled_cut(source) for source in self._sources])

    def values(self, key: bytes, body: bytes) -> bytes | None:
        if self.compiled is not None:
            found = self.compiled.values(key, body)
            if found is not NotImplemented:
                joined: bytes | None = found
                return joined
        borders = () if self._rows is None else self._rows.borders(body)
        of_key = self._keys.borders(key, _HEAD)
        values = []
        for source, decimal in zip(self._sources, self._decimals, strict=True):
            value = _cut(source, body, borders, key, of_key)
            if value == _NULL:
                return None
            # Without the number of its branch.
            values.append(_shortest(value[1:]) if decimal else value[1:])
        return b"".join(values)


class _Plan:
    """How rows of one schema, under keys of one schema, are cut."""

    def __init__(
        self,
        rows: Fields,
        keys: Fields,
        shown: Sequence[_Source],
        grouped: Sequence[_Source],
        joined: _JoinKey,
        where: Sequence[tuple[_Source, frozenset[bytes]]],
    ) -> None:
        self._rows, self._keys = rows, keys
        self._runs = _runs(shown)
        self._grouped, self.joined, self._where = grouped, joined, where
        self.projector = self._compiled()
        """The same in C; None where a part of it is beyond that."""

    def _compiled(self) -> Projector | None:
        rows, keys = steps_of(self._rows.schema), steps_of(self._keys.schema)
        if WHY_NOT or rows is None or keys is None:
            return None
        from include.join.native._join import Cut, Projector

        try:
            shown = [
                Cut(False, first, last, False, None, None) if changed is None else _compiled_cut(changed)
                for first, last, changed in self._runs
            ]
            where = [(_compiled_cut(source), wanted) for source, wanted in self._where]
            return Projector(rows, keys, shown, [_compiled_cut(source) for source in self._grouped], where)
        except InvalidRecord:
            # A field that no such row has, and the output's key needs.
            return None

    def entry(self, key: bytes, row: Row) -> OutputShare | None:
        body = row.body
        borders, of_key = self._rows.borders(body), self._keys.borders(key, _HEAD)
        for source, wanted in self._where:
            if _cut(source, body, borders, key, of_key) not in wanted:
                return None
        parts: list[bytes] = []
        for first, last, changed in self._runs:
            if changed is None:
                parts.append(body[borders[first] : borders[last]])
            else:
                parts.append(_cut(changed, body, borders, key, of_key))
        group = tuple(_cut(source, body, borders, key, of_key) for source in self._grouped)
        return OutputShare(row.version, key, group, b"".join(parts))

    def group(self, key: bytes, body: bytes) -> tuple[bytes, ...]:
        borders, of_key = self._rows.borders(body), self._keys.borders(key, _HEAD)
        return tuple(_cut(source, body, borders, key, of_key) for source in self._grouped)


def _compiled_cut(source: _Source) -> Cut:
    """Raises `InvalidRecord` for a field that no such row has, and the output's key needs."""
    from include.join.native._join import Cut

    constant = source.piece(b"") if source.place < 0 else None
    heads = [branch if isinstance(branch, bytes) else None for branch in source.piece.branches]
    return Cut(source.of_key, source.place, source.place + 1, source.piece.union, heads, constant)


def _cut(source: _Source, body: bytes, borders: Sequence[int], key: bytes, of_key: Sequence[int]) -> bytes:
    index = source.place
    if index < 0:
        return source.piece(b"")
    if source.of_key:
        return source.piece(key[of_key[index] : of_key[index + 1]])
    return source.piece(body[borders[index] : borders[index + 1]])


def _runs(shown: Sequence[_Source]) -> list[tuple[int, int, _Source | None]]:
    """Neighbours that are copied as they are become one copy: (first field, the one after the last, None)."""
    runs: list[tuple[int, int, _Source | None]] = []
    for source in shown:
        if source.piece is not AS_IS or source.of_key or source.place < 0:
            runs.append((0, 0, source))
        elif runs and runs[-1][2] is None and runs[-1][1] == source.place:
            runs[-1] = (runs[-1][0], source.place + 1, None)
        else:
            runs.append((source.place, source.place + 1, None))
    return runs


@dataclass(frozen=True)
class AvroJoin(Projection):
    """`shape.Projection` over the rows of all inputs."""

    rows: tuple[AvroRows, ...]

    @override
    def entry(self, input: int, key: bytes, row: Row) -> OutputShare | None:
        return self.rows[input].entry(key, row)

    @override
    def absent(self, input: int) -> OutputShare:
        return self.rows[input].absent()

    @classmethod
    def of(
        cls,
        join: JoinFile,
        plan: FieldPlan,
        newest: Sequence[InputSchema],
        output: OutputSchemas,
        schema_of: Callable[[int], Mapping[str, Any]],
    ) -> Self:
        """The rows of a join; arguments as those of `AvroRows`."""
        return cls(tuple(AvroRows(i, join, plan, each, output, schema_of) for i, each in enumerate(newest)))

    def shape(self, join: JoinFile, plan: FieldPlan, ids: tuple[int, int], slots: tuple[int, ...] = ()) -> JoinShape:
        """The join as the algorithm sees it; `ids`: those of the output's key and value schema."""
        key, value = (KeyFrame(prefix=b"\x00" + schema_id.to_bytes(4, "big")) for schema_id in ids)
        made = JoinShape.of(join, plan, self, key, value, slots)
        return replace(made, compiled=compiled(made, lambda place, key, kept: self.rows[place].projector(key, kept)))


def _types(fields: Fields) -> dict[str, Any]:
    whole: Any = expand_schema(dict(fields.schema))
    return {field["name"]: field["type"] for field in whole["fields"]}


def _encoded(kind: Any, value: str | int | bool | None) -> bytes:
    """A value of `where` as the field's bytes, with the number of its branch."""
    if value is None:
        return _NULL
    if kind == "boolean" and isinstance(value, bool):
        return b"\x02" + bytes((value,))
    if isinstance(value, bool) or not _fits(kind, value):
        raise SettingsError(
            "`where` compares texts, whole numbers and truth values with fields of that type", got=value, type=kind
        )
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(kind), value)
    return b"\x02" + out.getvalue()


def _fits(kind: Any, value: str | int) -> bool:
    if isinstance(value, int):
        return kind == "long" or (kind == "int" and -(1 << 31) <= value < 1 << 31)
    symbols = kind.get("symbols", ()) if isinstance(kind, dict) else ()
    text = kind == "string" or (isinstance(kind, dict) and kind["type"] == "string")
    return text or value in symbols


def _is_decimal(kind: Any) -> bool:
    return isinstance(kind, dict) and kind.get("logicalType") == "decimal" and kind["type"] == "bytes"


def _shortest(encoded: bytes) -> bytes:
    """A decimal with no more bytes than its value needs, as writers may put more in front, and equal ones are equal."""
    head = next(at for at, byte in enumerate(encoded) if byte < 0x80) + 1
    number = int.from_bytes(encoded[head:], "big", signed=True)
    size = (number.bit_length() + 8) // 8
    return bytes((size,)) + number.to_bytes(size, "big", signed=True)
