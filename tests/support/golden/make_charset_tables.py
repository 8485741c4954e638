"""Makes `include/source/charsets/tables.py` from what `record_charsets.py` wrote to a folder a server.

Where servers differ, the first folder that knows a sequence wins, and the difference is printed (those recorded here
do not differ). `ruff format` then puts the file into shape.

    PYTHONPATH=. .venv/bin/python tests/support/golden/make_charset_tables.py FOLDER…
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.paths import ROOT

TABLES = ROOT / "include/source/charsets/tables.py"
CODECS = {
    "big5": ("big5", "cp950"), "cp932": ("cp932",), "eucjpms": ("euc_jp",), "euckr": ("cp949",),
    "gb18030": ("gb18030",), "gb2312": ("gb2312", "gbk"), "gbk": ("gbk", "cp936"), "sjis": ("shift_jis", "cp932"),
    "ujis": ("euc_jp",),
}  # fmt: skip
SINGLE_CODECS = (
    "ascii", "latin_1", "iso8859_2", "iso8859_7", "iso8859_8", "iso8859_9", "iso8859_13", "iso8859_11", "cp1250",
    "cp1251", "cp1252", "cp1256", "cp1257", "cp850", "cp852", "cp866", "koi8_r", "koi8_u", "mac_latin2", "mac_roman",
    "tis_620", "hp_roman8",
)  # fmt: skip
HEAD = '''\
"""Differences of the servers' charsets from Python's codecs. Made by tests/support/golden/make_charset_tables.py."""

from __future__ import annotations

from typing import Final

__all__ = ["MULTI_BYTE", "SAME", "SINGLE_BYTE"]

SAME: Final[dict[str, str]] = {
'''
SINGLES = '''}
"""Charsets of one byte of which a codec of Python knows the same characters, and no others."""

SINGLE_BYTE: Final[dict[str, str]] = {
'''
MULTIS = '''}
"""Charset → its characters from 0x00 on where those below 0x80 are not ASCII, else from 0x80; U+FFFE: none."""

MULTI_BYTE: Final[dict[str, tuple[str, str]]] = {
'''
TAIL = '''}
"""Charset → (Python's codec, what differs), a line for sequences that follow each other by their last byte:
`first-bytes characters`, `first-bytes +code-point count` where code points do too, `first-bytes - count` for none.
"""
'''


def main(folders: list[Path]) -> None:
    same, single, multi = [], [], []
    for charset in sorted({path.stem for folder in folders for path in folder.glob("*.txt")}):
        known = merged(charset, folders)
        if charset in CODECS:
            multi.append(multi_byte(charset, known))
        elif (codec := same_codec(known)) is not None:
            same.append(f'    "{charset}": "{codec}",\n')
        else:
            single.append(single_byte(charset, known))
    TABLES.write_text("".join((HEAD, *same, SINGLES, *single, MULTIS, *multi, TAIL)), "utf-8")


def merged(charset: str, folders: list[Path]) -> dict[bytes, str]:
    known: dict[bytes, str] = {}
    for folder in folders:
        path = folder / f"{charset}.txt"
        for line in path.read_text("ascii").splitlines() if path.exists() else ():
            data, _, code = line.partition(" ")
            if not code:
                continue
            char = known.setdefault(bytes.fromhex(data), chr(int(code, 16)))
            if char != chr(int(code, 16)):
                print(f"{charset} {data}: {ord(char):x}, but {code} in {folder}")
    return known


def same_codec(known: dict[bytes, str]) -> str | None:
    for codec in SINGLE_CODECS:
        if all(decoded(codec, bytes((byte,))) == known.get(bytes((byte,))) for byte in range(256)):
            return codec
    return None


def single_byte(charset: str, known: dict[bytes, str]) -> str:
    chars = [known.get(bytes((byte,)), "\ufffe") for byte in range(256)]
    own = chars if any(ord(char) != byte for byte, char in enumerate(chars[:128])) else chars[128:]
    rows = ["".join(own[at : at + 16]) for at in range(0, len(own), 16)]
    return f'    "{charset}": (\n' + "".join(f"        {row!a}\n" for row in rows) + "    ),\n"


def multi_byte(charset: str, known: dict[bytes, str]) -> str:
    found = [(codec, differences(codec, charset, known)) for codec in CODECS[charset]]
    codec, differ = min(found, key=lambda pair: len(pair[1]))
    lines = runs(dict(sorted(differ.items())))
    print(f"{charset}: {len(known)} characters, {codec} and {len(differ)} exceptions in {len(lines)} lines")
    text = "".join(f"{line}\n" for line in lines)
    if not lines:
        return f'    "{charset}": ("{codec}", ""),\n'
    return f'    "{charset}": (\n        "{codec}",\n        """\\\n{text}""",\n    ),\n'


def differences(codec: str, charset: str, known: dict[bytes, str]) -> dict[bytes, str]:
    """Sequences that the codec decodes otherwise; "" where the server has no character."""
    differ = {data: char for data, char in known.items() if decoded(codec, data) != char}
    for length in {len(data) for data in known}:
        for data in candidates(length):
            if data not in known and decoded(codec, data):
                differ[data] = ""
    return differ


def candidates(length: int) -> list[bytes]:
    if length == 1:
        return [bytes((a,)) for a in range(256)]
    if length == 2:
        return [bytes((a, b)) for a in range(0x80, 256) for b in range(256)]
    if length == 3:
        return [bytes((a, b, c)) for a in range(0x80, 256) for b in range(0x80, 256) for c in range(0x80, 256)]
    digits = range(0x30, 0x3A)
    return [bytes((a, b, c, d)) for a in range(0x80, 256) for b in digits for c in range(0x80, 256) for d in digits]


def decoded(codec: str, data: bytes) -> str | None:
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return None
    return text if len(text) == 1 else None


def runs(differ: dict[bytes, str]) -> list[str]:
    lines: list[str] = []
    group: list[tuple[bytes, str]] = []
    for item in [*differ.items(), (b"", "")]:
        if group and not follows(group, item):
            lines.append(line(group))
            group = []
        group.append(item)
    return lines


def kind(group: list[tuple[bytes, str]]) -> str:
    codes = [ord(char) if char else -1 for _, char in group]
    if codes[0] < 0:
        return "none"
    linear = all(code == codes[0] + i for i, code in enumerate(codes))
    return "linear" if linear else "listed"


def follows(group: list[tuple[bytes, str]], item: tuple[bytes, str]) -> bool:
    last, char = group[-1]
    data, new = item
    if len(data) != len(last) or data[:-1] != last[:-1] or data[-1] != last[-1] + 1 or bool(char) != bool(new):
        return False
    if not char:
        return True
    # Private characters have no picture: only in rows by number.
    steps = ord(new) == ord(char) + 1
    return (steps and kind(group) == "linear") if private(char) or private(new) else len(group) < 40


def private(char: str) -> bool:
    return not char.isprintable() or char in ' +-\\"'


def line(group: list[tuple[bytes, str]]) -> str:
    first = group[0][0].hex()
    what = kind(group)
    if what == "none":
        return f"{first} - {len(group)}"
    if what == "linear":
        return f"{first} +{ord(group[0][1]):x} {len(group)}"
    return f"{first} {''.join(char for _, char in group)}"


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
