"""Each charset: all bytes of those of one byte, samples of the others; collations with large numbers."""

from __future__ import annotations

from tests.support.golden.case import Case, Step, both, mariadb, mysql
from tests.support.servers.catalogue import Known

__all__ = ["CASES"]

_ONE_BYTE = (
    "armscii8",
    "ascii",
    "binary",
    "cp1250",
    "cp1251",
    "cp1256",
    "cp1257",
    "cp850",
    "cp852",
    "cp866",
    "dec8",
    "geostd8",
    "greek",
    "hebrew",
    "hp8",
    "keybcs2",
    "koi8r",
    "koi8u",
    "latin1",
    "latin2",
    "latin5",
    "latin7",
    "macce",
    "macroman",
    "swe7",
    "tis620",
)
_SAMPLES = {
    "big5": "中文字，漢",
    "cp932": "日本語①ｱ～",
    "eucjpms": "日本語①ｱ～",
    "euckr": "한국어 텍스트",
    "gb2312": "中文字",
    "gbk": "中文字漢",
    "sjis": "日本語ｱ\\\\表",
    "ujis": "日本語ｱ",
    "utf8": "aü日€",
    "utf8mb4": "aü日€𝄞",
    "ucs2": "aü日€",
    "utf16": "aü日€𝄞",
    "utf16le": "aü日€𝄞",
    "utf32": "aü日€𝄞",
}


def _every_byte(_: Known) -> tuple[Step, ...]:
    columns = ", ".join(f"c_{name} varchar(256) CHARACTER SET {name}" for name in _ONE_BYTE)
    low, high = bytes(range(128)).hex(), bytes(range(128, 256)).hex()

    def cell(name: str, text: str) -> str:
        return f"_{name} x'{text}'"

    return (
        "SET sql_mode = ''",
        f"CREATE TABLE t (id int PRIMARY KEY, {columns})",
        f"INSERT INTO t VALUES (1, {', '.join(cell(name, low) for name in _ONE_BYTE)})",
        # ascii has no upper half; what MySQL and MariaDB do with it is not for this table to tell.
        f"INSERT INTO t VALUES (2, {', '.join('NULL' if name == 'ascii' else cell(name, high) for name in _ONE_BYTE)})",
    )


def _wide(row: Known) -> tuple[Step, ...]:
    samples = dict(_SAMPLES)
    if row.flavour == "mysql" and row.at_least(8):
        samples["gb18030"] = "中文字漢㐁𠀀€"
    columns = ", ".join(
        f"v_{name} varchar(20) CHARACTER SET {name}, c_{name} char(20) CHARACTER SET {name}, "
        f"t_{name} text CHARACTER SET {name}"
        for name in samples
    )
    cells = ", ".join(", ".join([f"'{text}'"] * 3) for text in samples.values())
    empties = ", ".join("''" for _ in range(3 * len(samples)))
    return (
        f"CREATE TABLE t (id int PRIMARY KEY, {columns})",
        f"INSERT INTO t VALUES (1, {cells}), (2, {empties})",
        "INSERT INTO t (id) VALUES (3)",
    )


def _labels(_: Known) -> tuple[Step, ...]:
    columns = ", ".join(
        f"e_{name} enum('x','{text}') CHARACTER SET {name}, s_{name} set('x','{text}') CHARACTER SET {name}"
        for name, text in _SAMPLES.items()
    )
    cells = ", ".join("2, 3" for _ in _SAMPLES)
    return (f"CREATE TABLE t (id int PRIMARY KEY, {columns})", f"INSERT INTO t VALUES (1, {cells})")


def _collated(names: tuple[str, ...]) -> tuple[Step, ...]:
    columns = [f"c{n} varchar(20) CHARACTER SET {name.split('_')[0]} COLLATE {name}" for n, name in enumerate(names)]
    columns.append(f"e enum('é', 'x') CHARACTER SET {names[0].split('_')[0]} COLLATE {names[0]}")
    text, empty = ("'aüé', " * len(names), "'', " * len(names))
    return (
        f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(columns)})",
        f"INSERT INTO t VALUES (1, {text}'é')",
        f"INSERT INTO t VALUES (2, {empty}'x')",
    )


CASES = [
    Case("charsets-one-byte", both(), _every_byte),
    Case("charsets-wide", both(), _wide),
    Case("charsets-labels", both(), _labels),
    Case(
        "collations-uca1400",
        mariadb(10, 11),
        _collated(
            tuple(
                f"{charset}_{rest}"
                for charset in ("utf8mb4", "utf8mb3", "ucs2", "utf16", "utf32")
                for rest in ("uca1400_ai_ci", "uca1400_nopad_as_cs", "uca1400_swedish_ai_ci", "uca1400_spanish2_as_ci")
            )
        ),
    ),
    Case(
        "collations-nopad",
        mariadb(10, 2),
        _collated(
            (
                "utf8mb4_nopad_bin",
                "latin1_swedish_nopad_ci",
                "utf8_unicode_520_nopad_ci",
                "ucs2_nopad_bin",
                "utf16le_nopad_bin",
                "cp850_nopad_bin",
                "utf32_unicode_nopad_ci",
                "utf8_nopad_bin",
            )
        ),
    ),
    Case(
        "collations-0900",
        mysql(8),
        _collated(
            (
                "utf8mb4_0900_ai_ci",
                "utf8mb4_0900_bin",
                "utf8mb4_ja_0900_as_cs_ks",
                "utf8mb4_zh_0900_as_cs",
                "utf8mb4_mn_cyrl_0900_as_cs",
                "utf8mb4_bg_0900_ai_ci",
                "latin1_general_cs",
            )
        ),
    ),
]
