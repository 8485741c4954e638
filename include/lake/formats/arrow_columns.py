"""Columns of an Avro schema.

| Avro | Arrow, and Parquet through it | in Delta tables, where they differ |
|---|---|---|
| boolean, int, long, float, double | bool, int32, int64, float32, float64 | |
| string, enum; bytes | string; binary | |
| fixed | binary of that length | binary |
| record; array; map | struct; list; map | all in them nullable |
| union of null and one other type | that type, nullable | |
| union of several | struct with a nullable member for each, by the name of its type | |
| null | null | string |
| decimal | decimal128, decimal256 over 38 digits | over 38 digits its text, as string |
| date; time-millis, time-micros | date32; time32(ms), time64(us) | time: int64, microseconds |
| timestamp-millis, -micros, -nanos | timestamp of that unit in UTC | of microseconds; nanos: int64 |
| local-timestamp-millis, -micros, -nanos | timestamp of that unit without a zone | the same (`timestamp_ntz`) |
| uuid; duration; any other logical type | the type below it | |

No columns have: types that contain themselves, unions whose branches look alike when read (two records, int and long),
records without fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, Final, Literal, NamedTuple

from include.errors import InvalidRecord

__all__ = ["ArrowColumn", "Target", "columns_of"]

Convert = Callable[[Any], Any]
Target = Literal["parquet", "delta"]
"""parquet: whatever Arrow has. delta: types that Delta tables have too; each column may be null."""

_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}
_SIMPLE: Final = {
    "boolean": "bool", "int": "int32", "long": "int64", "float": "float32", "double": "float64", "string": "string",
    "enum": "string", "bytes": "binary", "null": "null",
}  # fmt: skip
# What a value of a type is in Python: branches of one union have to differ in it.
_KINDS: Final = {
    "boolean": "bool", "int": "int", "long": "int", "float": "float", "double": "float", "string": "str",
    "enum": "str", "bytes": "bytes", "fixed": "bytes", "array": "list", "map": "dict", "record": "dict",
}  # fmt: skip
_MOST_DIGITS: Final = 76
_DELTA_DIGITS: Final = 38
_EXACT: Final = Context(prec=_MOST_DIGITS)


class ArrowColumn(NamedTuple):
    """A column; `convert` makes a value as read into one that Arrow takes, None where it does as it is.

    `whole`: its values are the messages' values themselves, not fields of them.
    """

    name: str
    type: Any
    nullable: bool
    convert: Convert | None
    whole: bool = False

    @property
    def field(self) -> Any:
        """It as Arrow's field."""
        import pyarrow.lib as pa

        return pa.field(self.name, self.type, self.nullable)

    def values(self, values: list[Any]) -> list[Any]:
        """Values as read → values as Arrow takes them."""
        convert = self.convert
        return values if convert is None else [None if value is None else convert(value) for value in values]


def columns_of(schema: Any, *, strict: bool = False, target: Target = "parquet") -> list[ArrowColumn]:
    """Columns of a record's fields; of any other schema one, `value`. `InvalidRecord` when it has none.

    `strict`: they convert whatever Arrow could refuse, with `InvalidRecord` for a value that does not fit. So a value
    is checked without Arrow, which takes a tenth of a millisecond for a row of its own.
    """
    types = _Types(strict, target)
    try:
        if isinstance(schema, Mapping) and schema["type"] == "record":
            return types.fields(schema, "", str(schema["name"]))
        return [types.column("value", schema, "", "value")._replace(whole=True)]
    except RecursionError as error:
        raise _refused("types that are so deep have no columns", "value") from error


class _Types:
    def __init__(self, strict: bool, target: Target) -> None:
        self._strict, self._delta = strict, target == "delta"
        self._named: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._open: list[str] = []

    def fields(self, record: Mapping[str, Any], space: str, path: str) -> list[ArrowColumn]:
        """Columns of a record's fields; `space` is the namespace around it, `path` its place, for errors."""
        name, inside = _full_name(record, space)
        self._named[name] = record, space
        if name in self._open:
            raise _refused("a type that contains itself has no columns", path)
        if not record["fields"]:
            raise _refused("a record without fields has no columns", path)
        self._open.append(name)
        columns = [
            self.column(field["name"], field["type"], inside, f"{path}.{field['name']}") for field in record["fields"]
        ]
        self._open.pop()
        return columns

    def column(self, name: str, schema: Any, space: str, path: str) -> ArrowColumn:
        """The column of one type."""
        kind, schema, space = self._resolved(schema, space)
        if kind == "union":
            return self._union(name, schema, space, path)
        type_, nullable, convert = self._one(kind, schema, space, path)
        return ArrowColumn(name, type_, nullable or self._delta, convert)

    def _resolved(self, schema: Any, space: str) -> tuple[str, Any, str]:
        """Kind, definition and the namespace around it; a name leads to what was defined under it."""
        if isinstance(schema, list):
            return "union", schema, space
        if isinstance(schema, str):
            full = schema if "." in schema or not space else f"{space}.{schema}"
            found = self._named.get(full) or self._named.get(schema)
            return (str(found[0]["type"]), *found) if found else (schema, {"type": schema}, space)
        kind = schema["type"]
        if kind in ("enum", "fixed"):
            self._named[_full_name(schema, space)[0]] = schema, space
        elif not isinstance(kind, str) or (kind not in _KINDS and kind != "null"):
            return self._resolved(kind, space)
        return kind, schema, space

    def _union(self, name: str, branches: list[Any], space: str, path: str) -> ArrowColumn:
        present = [branch for branch in branches if self._resolved(branch, space)[0] != "null"]
        members = [self.column(self._member(branch, space), branch, space, path) for branch in present]
        nullable = len(members) < len(branches)
        if not members:
            return self.column(name, "null", space, path)
        if len(members) == 1:
            return members[0]._replace(name=name, nullable=nullable or self._delta)
        kinds = [_KINDS[self._resolved(branch, space)[0]] for branch in present]
        if len(set(kinds)) < len(members):
            raise _refused("a union whose branches look alike has no columns", path)
        import pyarrow.lib as pa

        fields = [pa.field(member.name, member.type, True) for member in members]
        chosen = _chosen(dict(zip(kinds, members, strict=True)))
        return ArrowColumn(name, pa.struct(fields), nullable or self._delta, chosen)

    def _member(self, branch: Any, space: str) -> str:
        kind, schema, _ = self._resolved(branch, space)
        return str(schema["name"]).rpartition(".")[2] if kind in ("record", "enum", "fixed") else kind

    def _one(self, kind: str, schema: Any, space: str, path: str) -> tuple[Any, bool, Convert | None]:
        """Type, whether it may be null, conversion."""
        import pyarrow.lib as pa

        match kind:
            case "record":
                columns = self.fields(schema, space, path)
                return pa.struct([column.field for column in columns]), False, _record(columns)
            case "array":
                item = self.column("item", schema["items"], space, path)
                return pa.list_(item.field), False, item.values if item.convert else None
            case "map":
                value = self.column("value", schema["values"], space, path)
                return pa.map_(pa.string(), value.field), False, _map(value)
        digits = _digits(schema)
        if kind in ("bytes", "fixed") and digits:
            exact = _decimal(*digits)
            if self._delta and digits[0] > _DELTA_DIGITS:
                return pa.string(), False, lambda data: f"{exact(data):f}"
            return pa.decimal128(*digits) if digits[0] <= _DELTA_DIGITS else pa.decimal256(*digits), False, exact
        if kind == "fixed":
            return pa.binary(-1 if self._delta else schema["size"]), False, None
        if kind not in _SIMPLE:
            raise _refused(f"a type that is not defined: {kind}", path)
        logical = str(schema.get("logicalType", ""))
        checked = _int32 if self._strict and kind == "int" else None
        if self._delta and (kind == "null" or logical.startswith("time-") or logical.endswith(("-millis", "-nanos"))):
            return self._of_delta(kind, logical, checked)
        return _temporal(kind, logical) or pa.type_for_alias(_SIMPLE[kind]), kind == "null", checked

    @staticmethod
    def _of_delta(kind: str, logical: str, checked: Convert | None) -> tuple[Any, bool, Convert | None]:
        """What Delta has no type for, or in microseconds alone."""
        import pyarrow.lib as pa

        if kind == "null":
            return pa.string(), True, None
        known = _temporal(kind, logical)
        if known is None or not logical.endswith("-millis"):
            # Microseconds of a time, nanoseconds of a timestamp: the number that it is.
            return pa.type_for_alias(_SIMPLE[kind] if known is None else "int64"), False, checked
        micros = pa.timestamp("us", known.tz) if logical.count("timestamp") else pa.int64()
        return micros, False, lambda millis: 1000 * (checked(millis) if checked else millis)


def _full_name(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    """Full name and the namespace of what is inside."""
    name = str(schema["name"])
    if "." in name:
        return name, name.rpartition(".")[0]
    space = str(schema.get("namespace", space))
    return (f"{space}.{name}" if space else name), space


def _temporal(kind: str, logical: str) -> Any:
    import pyarrow.lib as pa

    match kind, logical:
        case "int", "date":
            return pa.date32()
        case "int", "time-millis":
            return pa.time32("ms")
        case "long", "time-micros":
            return pa.time64("us")
    what, _, unit = logical.rpartition("-")
    if kind == "long" and unit in _UNITS and what in ("timestamp", "local-timestamp"):
        return pa.timestamp(_UNITS[unit], "UTC" if what == "timestamp" else None)
    return None


def _digits(schema: Mapping[str, Any]) -> tuple[int, int] | None:
    """Precision and scale; a decimal that Avro calls invalid is its bytes, as is one that Arrow cannot hold."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or not isinstance(precision, int) or not isinstance(scale, int):
        return None
    return (precision, scale) if 1 <= precision <= _MOST_DIGITS and 0 <= scale <= precision else None


def _int32(value: int) -> int:
    # fastavro reads an int of any size that stands there.
    if not -(1 << 31) <= value < 1 << 31:
        raise InvalidRecord("an int has more than 32 bits", reason="bits", got=value)
    return value


def _decimal(precision: int, scale: int) -> Convert:
    most = 10**precision

    def convert(data: bytes) -> Decimal:
        unscaled = int.from_bytes(data, "big", signed=True)
        if not -most < unscaled < most:
            raise InvalidRecord(
                "a decimal has more digits than its type", reason="digits", precision=precision, got=str(unscaled)
            )
        return _EXACT.scaleb(Decimal(unscaled), -scale)

    return convert


def _record(columns: list[ArrowColumn]) -> Convert | None:
    changed = [(column.name, column.convert) for column in columns if column.convert]
    if not changed:
        return None

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        made = dict(value)
        for name, inner in changed:
            if made[name] is not None:
                made[name] = inner(made[name])
        return made

    return convert


def _map(column: ArrowColumn) -> Convert:
    inner = column.convert
    if inner is None:
        return lambda value: list(value.items())
    return lambda value: [(key, None if held is None else inner(held)) for key, held in value.items()]


def _chosen(members: dict[str, ArrowColumn]) -> Convert:
    def convert(value: Any) -> dict[str, Any]:
        member = members[type(value).__name__]
        return {member.name: member.convert(value) if member.convert else value}

    return convert


def _refused(message: str, path: str) -> InvalidRecord:
    return InvalidRecord(
        message, reason="no columns", path=path, fix="Keep these messages as Avro container files instead."
    )
