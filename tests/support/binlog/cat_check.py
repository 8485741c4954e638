"""Recordings through `Cat`: its rows, applied to what SELECT showed, must give what SELECT showed next."""

from __future__ import annotations

import io
import ipaddress
import re
import struct
import uuid
from collections.abc import Iterable
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from include.errors import Terminal
from include.record.schema import GEOMETRIES
from include.source.binlog.files import BinlogFile
from include.source.binlog.unpack import BinlogInput
from include.source.cat.cat import Cat
from include.source.cat.schema_rows import described
from tests.support.golden.recording import Description, Recording, Row

__all__ = ["differences", "printed", "prove", "told"]

Shown = dict[str, Any]
_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", *GEOMETRIES)
# What is refused, by case; with the map alone, the server's table maps tell too little of some types.
_REFUSED = {
    "statement-format": "logged as text|a type that is not read",
    "statement-forms": "logged as text",
    "statement-load": "logged as text",
    "statement-settings": "logged as text",
    "versioned-transactions": "logged as text",
    "charsets-one-byte": "column='c_",
    "json-partial-minimal": "of which no image holds the whole",
}
_BY_MAP = dict.fromkeys(
    ("old-decimal", "old-decimal-among", "old-decimal-moved", "old-decimal-shapes", "old-temporals"), "its type"
)
_LABELS = dict.fromkeys(("enums", "charsets-labels"), "may not be what information_schema shows")
# Changed by InnoDB itself, or by MariaDB's REPLACE under such images: the log does not hold it.
_UNLOGGED = {
    "cascades": "UPDATE|DELETE|REPLACE|COMMIT",
    "self-cascade": "DELETE|UPDATE",
    "image-minimal": "REPLACE",
    "image-noblob": "REPLACE",
}
_PLACE = {"file", "pos", "gtid", "server_id", "timestamp", "database", "table", "op", "before", "after"}


def printed(recording: Recording, given: bool, **options: Any) -> tuple[list[Shown], list[Terminal]]:
    """The lines of the whole file, and what was refused; with what information_schema said, where it is `given`.

    A schema is that of one moment: for each that a recording has, the file is read once, and of that what lies there.
    """
    if not given:
        return _printed(recording, [], **options)
    changed = sorted({-1} | {change.after for change in recording.changes if change.description or change.dropped})
    lines: list[Shown] = []
    refused: dict[str, Terminal] = {}
    for begin, end in zip(changed, [*changed[1:], len(recording.statements)], strict=True):
        # Rows of a statement that made its table (CREATE … SELECT) stand under what it made.
        first = recording.statements[begin - 1].end if begin > 0 else 0
        last = recording.statements[end - 1].end if end > 0 else 0
        found, wrong = _printed(recording, _known(recording, begin), **options)
        lines += [line for line in found if first < line["pos"] <= last]
        refused |= {str(each): each for each in wrong if first < int(each.details.get("pos", 0)) <= last}
    return lines, list(refused.values())


def _known(recording: Recording, after: int) -> list[dict[str, Any]]:
    """Rows of information_schema.columns after a statement, with EXTRA; also of tables that it dropped."""
    found = recording.descriptions(after - 1) | recording.descriptions(after)
    return [
        {"TABLE_SCHEMA": table[0], "TABLE_NAME": table[1], **column}
        for table, description in found.items()
        for column in description.columns
    ]


def _printed(
    recording: Recording, schema: Iterable[dict[str, Any]], **options: Any
) -> tuple[list[Shown], list[Terminal]]:
    refused: list[Terminal] = []
    cat = Cat(refused.append, Path(gettempdir()), described(schema), **options)
    cat.on_file("bin.000001")
    file = BinlogFile("bin.000001", recording.case, BinlogInput(io.BytesIO(recording.data)))
    lines = [line for data in file.events() for line in cat.on_event(data)]
    assert cat.on_end() is None
    assert all(set(line) == _PLACE for line in lines if "schema" not in line)
    return lines, refused


def prove(recording: Recording, given: bool) -> int:
    """Every printed value is what SELECT showed, what is missing is named; how many changes of tables were compared."""
    lines, refused = printed(recording, given)
    compared, wrong = differences(recording, lines, by_map=not given)
    expected = _REFUSED.get(recording.case) or (_LABELS if given and not told(recording) else {}).get(recording.case)
    if not given:
        expected = expected or _BY_MAP.get(recording.case)
    if expected:
        assert refused
        assert [str(each) for each in refused if not re.search(expected, str(each))] == []
        return compared
    assert [str(each) for each in refused] == []
    unlogged = _UNLOGGED.get(recording.case)
    assert [each for each in wrong if not (unlogged and re.search(f" after ['\"]({unlogged})\\b", each))] == []
    return compared


def told(recording: Recording) -> bool:
    """Whether the table maps tell all columns."""
    return recording.variables.get("binlog_row_metadata") == "FULL"


def differences(recording: Recording, lines: list[Shown], by_map: bool) -> tuple[int, list[str]]:
    """How many changes of tables were compared, and each that came out otherwise."""
    compared, wrong = 0, []
    left = list(lines)
    for number, statement in enumerate(recording.statements):
        mine: list[Shown] = []
        while left and left[0]["pos"] <= statement.end:
            mine.append(left.pop(0))
        changes = {change.table: change for change in recording.changes if change.after == number}
        before, after = recording.rows(number - 1), recording.rows(number)
        described_ = recording.descriptions(number)
        for table in {(line["database"], line["table"]) for line in mine} | set(changes):
            change = changes.get(table)
            those = [line for line in mine if (line["database"], line["table"]) == table]
            if change is not None and (change.dropped or change.description or (_empties(statement.sql) and not those)):
                continue
            if table not in described_ or described_[table].kind == "SEQUENCE":
                continue
            description = described_[table]
            start = [_row(description, row, by_map, recording) for row in before.get(table, [])]
            end = [_row(description, row, by_map, recording) for row in after[table]]
            reason = _apply(start, end, those)
            compared += 1
            if reason:
                wrong.append(f"{'.'.join(table)} after {statement.sql!r}: {reason}")
    return compared, wrong


def _empties(sql: str) -> bool:
    return sql.upper().startswith("TRUNCATE") or "PARTITION" in sql.upper()


def _apply(state: list[Shown], end: list[Shown], lines: list[Shown]) -> str:
    for line in lines:
        before, after = line["before"], line["after"]
        assert (before is None) == (line["op"] == "c")
        assert (after is None) == (line["op"] == "d")
        old: Shown = {}
        if before is not None:
            place = next((i for i, row in enumerate(state) if _fits(before, row)), None)
            if place is None:
                return f"no row is {before}"
            old = state.pop(place)
        if after is not None:
            state.append({**old, **after})
    # Rows that are known in full first, so that a part of a row does not take another's place.
    for row in sorted(state, key=len, reverse=True):
        place = next((i for i, expected in enumerate(end) if _fits(row, expected)), None)
        if place is None:
            return f"{row} is not there"
        end.pop(place)
    return f"{end[0]} was not printed" if end else ""


def _fits(part: Shown, row: Shown) -> bool:
    return all(name not in row or _same(value, row[name]) for name, value in part.items())


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, _Single) and isinstance(other, _Single):
        return one.data == other.data
    if isinstance(one, float) and isinstance(other, _Single):
        return struct.pack("<f", one) == other.data and repr(one) == min(other.texts, key=len)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other


class _Single:
    """A FLOAT: the number may have any text that reads back to it, printed is the shortest."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        value = struct.unpack("<f", data)[0]
        texts = (repr(float(f"{value:.{digits}g}")) for digits in range(1, 10))
        self.texts = [text for text in texts if _packed(text) == data]

    def __repr__(self) -> str:
        return f"float32 {self.texts[0]}"


def _packed(text: str) -> bytes:
    try:
        return struct.pack("<f", float(text))
    except OverflowError:
        return b""


def _row(description: Description, row: Row, by_map: bool, recording: Recording) -> Shown:
    """What SELECT showed, as JSON; without columns whose log says another thing."""
    found = {}
    for column, cell in zip(description.columns, row, strict=False):
        extra = str(column["EXTRA"]).upper()
        if recording.flavour == "mariadb" and ("VIRTUAL" in extra or "STORED" in extra or "PERSISTENT" in extra):
            continue
        if column["COLUMN_TYPE"].startswith("double("):
            # SELECT rounds to the digits declared, the log holds what is stored.
            continue
        found[column["COLUMN_NAME"]] = None if cell is None else _value(column, cell, by_map and recording.flavour)
    return found


def _value(column: dict[str, Any], cell: bytes, by_map: Any) -> Any:
    kind = column["DATA_TYPE"].lower()
    if kind in _NUMBERS:
        return int(cell)
    if kind == "decimal" and "zerofill" in column["COLUMN_TYPE"]:
        whole, point, part = cell.decode().partition(".")
        return str(int(whole)) + point + part
    if kind == "float":
        return _Single(struct.pack("<f", float(cell)))
    if kind == "double":
        return float(cell)
    if kind == "bit":
        return int.from_bytes(cell, "big")
    if kind == "vector" and by_map != "mariadb":
        return [_Single(cell[i : i + 4]) for i in range(0, len(cell), 4)]
    if by_map == "mariadb" and kind in ("uuid", "inet4", "inet6"):
        text = cell.decode()
        return {"hex": (uuid.UUID(text).bytes if kind == "uuid" else ipaddress.ip_address(text).packed).hex()}
    if kind in _BYTES or kind == "vector":
        return {"hex": cell.hex()}
    return cell.decode()
