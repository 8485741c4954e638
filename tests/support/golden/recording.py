"""A recording: a closed binlog file and what the server itself says of it, as JSON beside it.

Cells are the bytes that SELECT gave (None: NULL): text converted to utf8mb4 by the server, binary as it is, FLOAT by
`f * 1e0`, temporals in the time zone +00:00.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from include.record.gtid import Flavour
from tests.support.paths import GOLDEN

__all__ = ["DESCRIBED", "Change", "Description", "Recording", "Row", "Statement", "load", "names", "order"]

DESCRIBED = (
    "ORDINAL_POSITION",
    "COLUMN_NAME",
    "COLUMN_TYPE",
    "NUMERIC_PRECISION",
    "NUMERIC_SCALE",
    "DATETIME_PRECISION",
    "CHARACTER_SET_NAME",
    "COLUMN_KEY",
    "DATA_TYPE",
    "IS_NULLABLE",
    "COLLATION_NAME",
    "EXTRA",
    "GENERATION_EXPRESSION",
)
"""What is kept of information_schema.columns, besides TABLE_SCHEMA and TABLE_NAME; in the files, in this order."""
_SCHEMA = DESCRIBED[:8]
_HEX_LIMIT = 40

Row = tuple[bytes | None, ...]
Table = tuple[str, str]


@dataclass(frozen=True)
class Statement:
    """One statement, its session ("" is the first), where the log ended after it, the error it was refused with."""

    sql: str
    session: str
    end: int
    error: int | None


@dataclass(frozen=True)
class Description:
    """A table as information_schema tells it: `columns` are dicts by the names of `DESCRIBED`.

    `key_parts`: (key, unique, place, column, prefix length or None). `cells` names what a `Row` holds, in order: all
    columns, and after them the hidden `row_start`, `row_end` of a system-versioned table.
    """

    columns: tuple[dict[str, Any], ...]
    key_parts: tuple[tuple[str, bool, int, str, int | None], ...]
    engine: str
    collation: str | None
    kind: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """What committed rows of a table became different by statement number `after` (from 0).

    `description` is there when the table was made, or changed its description: then all of its rows are in `come`.
    It is gone (`dropped`) or lost the rows `gone` and got the rows `come`, each in the order of their bytes.
    """

    after: int
    table: Table
    description: Description | None = None
    dropped: bool = False
    gone: tuple[Row, ...] = ()
    come: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Recording:
    """`data` is the whole file. `variables`: settings of the log as the recording began."""

    server: str
    case: str
    version: str
    flavour: Flavour
    variables: dict[str, str]
    gtid: tuple[str, str]
    collations: dict[int, tuple[str, str]]
    statements: tuple[Statement, ...]
    changes: tuple[Change, ...]
    data: bytes = field(repr=False)

    def descriptions(self, after: int | None = None) -> dict[Table, Description]:
        """Tables as they were after statement `after` (None: at the end)."""
        found: dict[Table, Description] = {}
        for change in self._until(after):
            if change.dropped:
                del found[change.table]
            elif change.description:
                found[change.table] = change.description
        return found

    def schema(self, after: int | None = None) -> list[dict[str, Any]]:
        """Rows of information_schema.columns, as `lyrebird binlog cat --schema` reads them."""
        return [
            {"TABLE_SCHEMA": table[0], "TABLE_NAME": table[1], **{name: column[name] for name in _SCHEMA}}
            for table, description in self.descriptions(after).items()
            for column in description.columns
        ]

    def rows(self, after: int | None = None) -> dict[Table, list[Row]]:
        """Committed rows of every table after statement `after` (None: at the end), in the order of their bytes."""
        found: dict[Table, Counter[Row]] = {}
        for change in self._until(after):
            if change.dropped:
                del found[change.table]
                continue
            if change.description:
                found[change.table] = Counter()
            found[change.table].subtract(change.gone)
            found[change.table].update(change.come)
        return {table: sorted(rows.elements(), key=_order) for table, rows in found.items()}

    def _until(self, after: int | None) -> Iterator[Change]:
        return (change for change in self.changes if after is None or change.after <= after)

    def save(self, folder: Path = GOLDEN) -> None:
        """Write both files."""
        place = folder / self.server / self.case
        place.parent.mkdir(exist_ok=True)
        place.with_suffix(".binlog").write_bytes(self.data)
        value = {
            "version": self.version,
            "flavour": self.flavour,
            "variables": self.variables,
            "gtid": self.gtid,
            "collations": {str(number): names for number, names in sorted(self.collations.items())},
            "statements": [[s.sql, s.session, s.end, s.error] for s in self.statements],
            "changes": [_change_to_json(change) for change in self.changes],
        }
        lines = []
        for name, part in value.items():
            text = json.dumps(part, ensure_ascii=False, separators=(",", ":"))
            if name in ("statements", "changes") and isinstance(part, list) and part:
                inner = ",\n  ".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in part)
                text = f"[\n  {inner}\n ]"
            lines.append(f' "{name}": {text}')
        place.with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def names(folder: Path = GOLDEN) -> list[tuple[str, str]]:
    """(server, case) of every recording."""
    return sorted((path.parent.name, path.stem) for path in folder.glob("*/*.binlog"))


def load(server: str, case: str, folder: Path = GOLDEN) -> Recording:
    """Read a recording; FileNotFoundError when there is none of that name."""
    place = folder / server / case
    value = json.loads(place.with_suffix(".json").read_text("utf-8"))
    return Recording(
        server=server,
        case=case,
        version=value["version"],
        flavour=value["flavour"],
        variables=value["variables"],
        gtid=tuple(value["gtid"]),
        collations={int(number): tuple(names) for number, names in value["collations"].items()},
        statements=tuple(Statement(*cells) for cells in value["statements"]),
        changes=tuple(_change(cells) for cells in value["changes"]),
        data=place.with_suffix(".binlog").read_bytes(),
    )


def order(rows: list[Row]) -> tuple[Row, ...]:
    """Rows in the order of their bytes."""
    return tuple(sorted(rows, key=_order))


def _order(row: Row) -> list[tuple[bool, bytes]]:
    return [(cell is not None, cell or b"") for cell in row]


def _change_to_json(change: Change) -> dict[str, Any]:
    value: dict[str, Any] = {"after": change.after, "table": change.table}
    if change.dropped:
        return {**value, "dropped": True}
    if change.description:
        it = change.description
        value["columns"] = [[column[name] for name in DESCRIBED] for column in it.columns]
        value |= {"key_parts": it.key_parts, "engine": it.engine, "collation": it.collation, "kind": it.kind}
        value["cells"] = it.cells
    for side, rows in (("gone", change.gone), ("come", change.come)):
        if rows:
            value[side] = [[_cell_to_json(cell) for cell in row] for row in rows]
    return value


def _change(value: dict[str, Any]) -> Change:
    description = None
    if "columns" in value:
        description = Description(
            columns=tuple(dict(zip(DESCRIBED, cells, strict=True)) for cells in value["columns"]),
            key_parts=tuple(tuple(part) for part in value["key_parts"]),
            engine=value["engine"],
            collation=value["collation"],
            kind=value["kind"],
            cells=tuple(value["cells"]),
        )
    gone, come = (tuple(tuple(map(_cell, row)) for row in value.get(side, ())) for side in ("gone", "come"))
    database, table = value["table"]
    return Change(value["after"], (database, table), description, value.get("dropped", False), gone, come)


def _cell_to_json(cell: bytes | None) -> str | None:
    """Hex, or where it is long and that is shorter, `zlib:` and base64."""
    if cell is None:
        return None
    packed = "zlib:" + base64.b64encode(zlib.compress(cell, 9)).decode() if len(cell) > _HEX_LIMIT else ""
    return packed if 0 < len(packed) < 2 * len(cell) else cell.hex()


def _cell(text: str | None) -> bytes | None:
    if text is None:
        return None
    return zlib.decompress(base64.b64decode(text[5:])) if text.startswith("zlib:") else bytes.fromhex(text)
