"""Records `charsets-<server>.json` from a real server: every collation's charset, every character's bytes.

Each sequence of bytes is stored in a column of the charset. It is a character when the server keeps it as one; its
Unicode is what the server converts it to, none when that is the sign for what it cannot convert. A charset of several
bytes is recorded as a digest of its characters for each first byte. With a folder, all characters go there too, one
file a charset, from which `make_charset_tables.py` makes the tables of `include/source`:

    PYTHONPATH=. .venv/bin/python tests/support/golden/record_charsets.py mysql-9.7 [FOLDER]

MariaDB 10.2.11 and 10.11 gave the same characters as 11.4.5, MySQL 5.6.21 (without gb18030) as 9.7, and no collation of
theirs has another charset there.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pymysql

from tests.support.paths import GOLDEN
from tests.support.servers.running import running

UNICODE = {
    "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be",
    "utf8mb3": "utf-8", "utf8mb4": "utf-8",
}  # fmt: skip
Span = tuple[int, int]
BYTE: Span = (0, 255)
Mapping = dict[bytes, str | None]


def main(server: str, mappings: Path | None) -> None:
    """Write the golden file of `server`; with `mappings`, also one text file of all characters a charset there."""
    with tempfile.TemporaryDirectory() as folder, running(server, Path(folder)) as at:
        connection = at.connect(max_allowed_packet=64 << 20)
        with connection, connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0, sql_mode = ''")
            cursor.execute("CREATE DATABASE lyrechars")
            cursor.execute("CREATE TABLE lyrechars.bytes (b binary(1) PRIMARY KEY)")
            cursor.executemany("INSERT INTO lyrechars.bytes VALUES (UNHEX(%s))", [(f"{b:02x}",) for b in range(256)])
            value: dict[str, Any] = {
                "server": at.version,
                "flavour": at.flavour,
                "collations": collations(cursor),
                "charsets": {
                    charset: unicode_charset(cursor, charset, longest)
                    if charset in UNICODE
                    else own_charset(cursor, charset, longest, mappings)
                    for charset, longest in charsets(cursor)
                },
            }
    path = GOLDEN / f"charsets-{server}.json"
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(path.name, {charset: said["characters"] for charset, said in value["charsets"].items()})


def charsets(cursor: Any) -> list[tuple[str, int]]:
    cursor.execute("SELECT character_set_name, maxlen FROM information_schema.character_sets ORDER BY 1")
    return [(canonical(name), longest) for name, longest in cursor.fetchall() if name != "binary"]


def canonical(charset: str) -> str:
    return "utf8mb3" if charset == "utf8" else charset


def collations(cursor: Any) -> dict[str, str]:
    """Charset → its collations' ids, as ranges."""
    found: dict[str, set[int]] = {}
    for table in ("COLLATIONS", "COLLATION_CHARACTER_SET_APPLICABILITY"):
        try:
            cursor.execute(f"SELECT character_set_name, id FROM information_schema.{table} WHERE id IS NOT NULL")
        except pymysql.err.OperationalError:
            continue  # Only MariaDB since 10.10 has ids in the second.
        for charset, number in cursor.fetchall():
            if charset is not None:
                found.setdefault(canonical(charset), set()).add(int(number))
    return {charset: ranges(sorted(found[charset])) for charset in sorted(found)}


def ranges(numbers: list[int]) -> str:
    runs = [list(run) for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return " ".join(
        str(run[0][1]) if len(run) == 1 else f"{run[0][1]}-{run[-1][1]}" for run in runs
    )  # fmt: skip


def own_charset(cursor: Any, charset: str, longest: int, mappings: Path | None) -> dict[str, Any]:
    whole: Mapping = {}
    for spans in sequences(charset, longest):
        whole |= characters(cursor, charset, spans)
    whole = dict(sorted(whole.items()))
    known = {data: text for data, text in whole.items() if text is not None}
    if mappings is not None:
        lines = (f"{data.hex()} {'' if text is None else f'{ord(text):x}'}\n" for data, text in whole.items())
        (mappings / f"{charset}.txt").write_text("".join(lines), "ascii")
    said: dict[str, Any] = {"max_bytes": longest, "characters": len(known), "without_unicode": len(whole) - len(known)}
    if longest == 1:
        said["map"] = " ".join(f"{ord(known[key]):x}" if (key := bytes((b,))) in known else "-" for b in range(256))
    else:
        said["leads"] = {f"{lead:02x}": digest(each) for lead, each in by_lead(known)}
    return said


def sequences(charset: str, longest: int) -> Iterator[tuple[Span, ...]]:
    """What to ask, in parts that a server answers at once."""
    yield (BYTE,)
    if longest > 1:
        yield BYTE, BYTE
    if longest == 3:
        for lead in range(0x80, 0x100):
            yield (lead, lead), (0x80, 0xFF), (0x80, 0xFF)
    if longest == 4:
        for lead in range(0x80, 0x100):
            yield (lead, lead), (0x30, 0x39), BYTE, (0x30, 0x39)


def characters(cursor: Any, charset: str, spans: tuple[Span, ...]) -> Mapping:
    """The characters whose bytes lie within `spans`, each with its Unicode."""
    names = [f"t{i}" for i in range(len(spans))]
    within = " AND ".join(
        f"{name}.b BETWEEN x'{low:02x}' AND x'{high:02x}'" for name, (low, high) in zip(names, spans, strict=True)
    )
    given = f"SELECT CONCAT({', '.join(f'{name}.b' for name in names)}) r"
    tables = ", ".join(f"lyrechars.bytes {name}" for name in names)
    rows = stored(cursor, charset, f"{given} FROM {tables} WHERE {within}", "CHAR_LENGTH(c) = 1 AND HEX(c) = HEX(r)")
    return {data: unicode_of(charset, data, said) for data, _, said in rows}


def stored(cursor: Any, charset: str, given: str, where: str) -> list[tuple[bytes, bytes, bytes | None]]:
    """What becomes of the bytes `r` of the query `given` in a column: (given, kept, in utf8mb4)."""
    cursor.execute("DROP TABLE IF EXISTS lyrechars.texts")
    cursor.execute(
        f"CREATE TABLE lyrechars.texts (r varbinary(16), c varchar(16) CHARACTER SET {charset}) ENGINE=MyISAM"
    )
    cursor.execute(f"INSERT IGNORE INTO lyrechars.texts SELECT r, r FROM ({given}) s")
    cursor.execute(f"SELECT HEX(r), HEX(c), HEX(CONVERT(c USING utf8mb4)) FROM lyrechars.texts WHERE {where}")
    return [
        (bytes.fromhex(data), bytes.fromhex(kept), None if said is None else bytes.fromhex(said))
        for data, kept, said in cursor.fetchall()
    ]


def unicode_of(charset: str, data: bytes, said: bytes | None) -> str | None:
    text = (said or b"").decode("utf-8", "surrogatepass")
    if text == "?" and data != b"?":
        return None
    if text == "\ufffd" and charset != "gb18030":
        return None  # The sign for what is no character; gb18030 alone has that sign itself.
    if len(text) > 1:
        raise SystemExit(f"{data.hex()} is {len(text)} characters")
    return text or None


def by_lead(known: dict[bytes, str]) -> Iterator[tuple[int, dict[bytes, str]]]:
    for lead, items in groupby(known.items(), lambda item: item[0][0]):
        yield lead, dict(items)


def digest(known: dict[bytes, str]) -> str:
    """Over a line `bytes=code point` in hex for each character, in the order of their bytes."""
    lines = "".join(f"{data.hex()}={ord(text):x}\n" for data, text in known.items())
    return hashlib.sha256(lines.encode("ascii")).hexdigest()[:16]


def unicode_charset(cursor: Any, charset: str, longest: int) -> dict[str, Any]:
    """Which blocks of 256 code points are not as Python has them, and what becomes of bytes that are no characters."""
    codec, odd = UNICODE[charset], []
    top = 0x10000 if charset in ("ucs2", "utf8mb3") else 0x110000
    for block in range(0, top, 256):
        text = "".join(map(chr, range(block, block + 256)))
        if block >> 11 != 0xD800 >> 11 and not same(cursor, charset, text.encode(codec), text):
            odd.append(f"{block:x}")
    return {
        "max_bytes": longest,
        "characters": top - 0x800,
        "differing_blocks": odd,
        "special": {data.hex(): special(cursor, charset, data) for data in specials(codec)},
    }


def same(cursor: Any, charset: str, data: bytes, text: str) -> bool:
    cursor.execute(f"SELECT HEX(CONVERT(CONVERT(x'{data.hex()}' USING {charset}) USING utf8mb4))")
    return bytes.fromhex(cursor.fetchone()[0] or "") == text.encode()


def special(cursor: Any, charset: str, data: bytes) -> list[str | None]:
    """[bytes that the server keeps, its conversion to utf8mb4], both hex."""
    ((_, kept, said),) = stored(cursor, charset, f"SELECT x'{data.hex()}' r", "1 = 1")
    return [kept.hex(), None if said is None else said.hex()]


def specials(codec: str) -> list[bytes]:
    """Forms that Unicode forbids: lone and paired surrogates, overlong forms, code points that are too high, cuts."""
    if codec == "utf-8":
        given = (
            "80 bf c0 c080 c1bf c2 c2c2 e08080 e09fbf e282 eda080 edadbf edae80 edbfbf eda081edb080 f0808080 f08fbfbf"
            " f09f98 f09f9880 f48fbfbf f4908080 f7bfbfbf f888808080 fc8480808080 fe ff efbfbe efbfbf"
        )
        return [bytes.fromhex(each) for each in given.split()]
    units = ["d800", "dbff", "dc00", "dfff", "d83dde00", "de00d83d", "d83d0041", "d8000041d83dde00", "fffe", "ffff",
             "feff0041"]  # fmt: skip
    if codec == "utf-32-be":
        padded = ["0000d800", "0000dfff", "0000d83d0000de00", "00110000", "7fffffff", "ffffffff", "0010ffff",
                  "0000fffe", "0000feff00000041"]  # fmt: skip
        return [bytes.fromhex(each) for each in padded]
    swap = codec == "utf-16-le"
    return [b"".join(pair[::-1] if swap else pair for pair in _pairs(bytes.fromhex(each))) for each in units]


def _pairs(data: bytes) -> list[bytes]:
    return [data[i : i + 2] for i in range(0, len(data), 2)]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None)
