"""Text in the charsets of MySQL and MariaDB: collation id → charset, charset → decoder of its bytes.

What is text, and which, is what a server says that converts it to utf8mb4 (recordings in `tests/golden`). Bytes that a
server stores but cannot convert raise `ValueError`, never a question mark; so do lone surrogates, which MariaDB takes
in utf8, ucs2 and utf32 but no UTF-8 holds.

Why Python's codecs first: they are many times faster than a table walked in Python. A charset of several bytes is read
by the codec nearest to it, helped over what it does not know, and its characters are renamed after; only text with
bytes that it should not know is walked.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Final, Literal

from include.errors import Terminal
from include.source.charsets.tables import MULTI_BYTE, SAME, SINGLE_BYTE
from include.source.malformed import Malformed

__all__ = ["CHARSETS", "charset_of", "is_utf8", "max_bytes", "single_byte_table", "text_decoder"]

_UNDEFINED: Final = "\ufffe"
_UNICODE: Final = {"ucs2": 2, "utf16": 4, "utf16le": 4, "utf32": 4, "utf8": 3, "utf8mb3": 3, "utf8mb4": 4}
_LONGEST: Final = {**_UNICODE, **dict.fromkeys(MULTI_BYTE, 2), "eucjpms": 3, "gb18030": 4, "ujis": 3}

_COLLATIONS: Final = """\
armscii8 32 64
ascii 11 65
big5 1 84
binary 63
cp1250 26 34 44 66 99
cp1251 14 23 50-52
cp1256 57 67
cp1257 29 58-59
cp850 4 80
cp852 40 81
cp866 36 68
cp932 95-96
dec8 3 69
eucjpms 97-98
euckr 19 85
gb18030 248-250
gb2312 24 86
gbk 28 87
geostd8 92-93
greek 25 70
hebrew 16 71
hp8 6 72
keybcs2 37 73
koi8r 7 74
koi8u 22 75
latin1 5 8 15 31 47-49 94
latin2 2 9 21 27 77
latin5 30 78
latin7 20 41-42 79
macce 38 43
macroman 39 53
sjis 13 88
swe7 10 82
tis620 18 89
ucs2 35 90 128-151 159
ujis 12 91
utf16 54-55 101-124
utf16le 56 62
utf32 60-61 160-183
utf8mb3 33 76 83 192-215 223
utf8mb4 45-46 224-247 255-271 273-275 277-294 296-298 300 303-323
"""
_MARIADB: Final = "utf8mb3 576-578\nutf8mb4 608-610\nucs2 640-642\nutf16 672-674\nutf32 736-738\n"
# From here on ids of MariaDB are those of 1024 less, without padding; then, for each charset, 256 of UCA 14.
_NO_PAD: Final = 1024
_UCA_1400: Final = 2048
_OF_UCA_1400: Final = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32")

CHARSETS: Final = tuple(sorted({*SAME, *SINGLE_BYTE, *_LONGEST}))
"""All charsets of text, sorted; `utf8`, as old servers call it, beside `utf8mb3`. `binary` is no text."""


def charset_of(collation_id: int, flavour: Literal["mariadb", "mysql"]) -> str | None:
    """The charset of a collation as table maps name it, `binary` for bytes; None for an id that no server has.

    `utf8mb3` is never called `utf8` here.
    """
    if flavour == "mysql":
        return _collations("mysql").get(collation_id)
    if collation_id >= _UCA_1400:
        place = (collation_id - _UCA_1400) >> 8
        return _OF_UCA_1400[place] if place < len(_OF_UCA_1400) else None
    return _collations("mariadb").get(collation_id - _NO_PAD if collation_id >= _NO_PAD else collation_id)


@cache
def _collations(flavour: Literal["mariadb", "mysql"]) -> dict[int, str]:
    charsets: dict[int, str] = {}
    for line in (_COLLATIONS + (_MARIADB if flavour == "mariadb" else "")).splitlines():
        charset, *spans = line.split()
        for span in spans:
            first, _, last = span.partition("-")
            charsets |= dict.fromkeys(range(int(first), int(last or first) + 1), charset)
    return charsets


def is_utf8(charset: str) -> bool:
    """Whether its bytes are UTF-8 already (once the decoder has taken them)."""
    return charset in ("utf8", "utf8mb3", "utf8mb4", "ascii")


def max_bytes(charset: str) -> int:
    """Most bytes of a character, as the server counts them for a column's length; raises `Terminal` for no charset."""
    return 1 if charset == "binary" else _LONGEST.get(_known(charset), 1)


@cache
def single_byte_table(charset: str) -> tuple[str, ...] | None:
    """The character of each byte, "" where there is none; None for charsets with characters of several bytes.

    Raises `Terminal` for a name that is no charset of text.
    """
    chars = _chars(_known(charset))
    return None if chars is None else tuple("" if char == _UNDEFINED else char for char in chars)


@cache
def text_decoder(charset: str) -> Callable[[bytes], str]:
    """Bytes → text; the decoder raises `ValueError` for bytes that are no text. `Terminal` for no charset of text."""
    chars = _chars(_known(charset))
    if chars is not None:
        return lambda data: codecs.charmap_decode(data, "strict", chars)[0]
    if charset in MULTI_BYTE:
        return _multi_byte(charset)
    return _UNICODE_DECODERS[charset]


def _known(charset: str) -> str:
    if charset not in CHARSETS:
        raise Terminal(
            "not a charset of text",
            charset=charset,
            allowed=list(CHARSETS),
            fix="Convert the column, or leave it out by `ignored_columns`.",
        )
    return charset


def _chars(charset: str) -> str | None:
    """The 256 characters of a charset of one byte."""
    if charset in SAME:
        return bytes(range(256)).decode(SAME[charset], "replace").replace("\ufffd", _UNDEFINED)
    own = SINGLE_BYTE.get(charset)
    return own if own is None or len(own) == 256 else bytes(range(128)).decode("ascii") + own


def _utf8mb3(data: bytes) -> str:
    text = data.decode()
    # Surrogate pairs stand for characters of four bytes; Python has no quicker look at the widest character.
    if len(text.encode("utf-16-le")) != 2 * len(text):
        raise Malformed("a character of four bytes in utf8mb3")
    return text


def _ucs2(data: bytes) -> str:
    text = data.decode("utf-16-be")
    if 2 * len(text) != len(data):
        raise Malformed("surrogates in ucs2")
    return text


_UNICODE_DECODERS: Final[dict[str, Callable[[bytes], str]]] = {
    "ucs2": _ucs2,
    "utf16": lambda data: data.decode("utf-16-be"),
    "utf16le": lambda data: data.decode("utf-16-le"),
    "utf32": lambda data: data.decode("utf-32-be"),
    "utf8": _utf8mb3,
    "utf8mb3": _utf8mb3,
    "utf8mb4": lambda data: data.decode(),
}


def _multi_byte(charset: str) -> Callable[[bytes], str]:
    codec, lines = MULTI_BYTE[charset]
    other = dict(_exceptions(lines))
    size = _SIZES.get(charset, _two_bytes)
    renamed = {ord(theirs): char for data, theirs, char in _known_otherwise(codec, other) if _alone(codec, data, char)}
    doubtful = {data: theirs for data, theirs, char in _known_otherwise(codec, other) if not _alone(codec, data, char)}
    rename, doubt = _any_of(map(chr, renamed)), _any_of(doubtful.values())

    def unknown_to_codec(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeDecodeError):
            raise error
        piece = error.object[error.start : error.start + size(error.object, error.start)]
        char = other.get(piece)
        if not char:
            raise error
        return char, error.start + len(piece)

    errors = f"lyrebird.{charset}"
    codecs.register_error(errors, unknown_to_codec)

    def decode(data: bytes) -> str:
        text = data.decode(codec, errors)
        if doubt is not None and doubt(text) and any(each in data for each in doubtful):
            return walk(data)
        return text.translate(renamed) if rename is not None and rename(text) else text

    def walk(data: bytes) -> str:
        out, offset = [], 0
        while offset < len(data):
            piece = data[offset : offset + size(data, offset)]
            char = other.get(piece)
            if char is None:
                char = piece.decode(codec)
            if len(char) != 1:
                raise Malformed(f"no character of {charset}: {len(piece)} bytes at byte {offset}")
            out.append(char)
            offset += len(piece)
        return "".join(out)

    return decode


def _known_otherwise(codec: str, other: dict[bytes, str]) -> Iterator[tuple[bytes, str, str]]:
    """(sequence, the codec's character, the server's or "") where the codec has one."""
    for data, char in other.items():
        with suppress(UnicodeDecodeError):
            if len(theirs := data.decode(codec)) == 1:
                yield data, theirs, char


def _alone(codec: str, data: bytes, char: str) -> bool:
    """Whether the server has a character here, and the codec knows its own by these bytes."""
    return bool(char) and data.decode(codec).encode(codec) == data


def _any_of(chars: Iterable[str]) -> Callable[[str], object] | None:
    """Finds the first of `chars` in a text; None for no characters."""
    listed = re.escape("".join(sorted(chars)))
    return re.compile(f"[{listed}]").search if listed else None


def _exceptions(lines: str) -> Iterator[tuple[bytes, str]]:
    """The lines of `MULTI_BYTE` → (sequence, its character, "" for none)."""
    for line in lines.splitlines():
        first, what, *count = line.split(" ")
        data = bytes.fromhex(first)
        if count:
            start = int(what[1:], 16) if what != "-" else 0
            chars = [chr(start + i) if start else "" for i in range(int(count[0]))]
        else:
            chars = list(what)
        for i, char in enumerate(chars):
            yield data[:-1] + bytes((data[-1] + i,)), char


def _two_bytes(data: bytes, at: int) -> int:
    return 1 if data[at] < 0x80 else 2


def _shift_jis(data: bytes, at: int) -> int:
    return 1 if data[at] < 0x80 or 0xA1 <= data[at] <= 0xDF else 2


def _euc_jp(data: bytes, at: int) -> int:
    return 3 if data[at] == 0x8F else _two_bytes(data, at)


def _gb18030(data: bytes, at: int) -> int:
    return 4 if data[at] >= 0x80 and data[at + 1 : at + 2].isdigit() else _two_bytes(data, at)


_SIZES: Final = {
    "cp932": _shift_jis, "eucjpms": _euc_jp, "gb18030": _gb18030, "sjis": _shift_jis, "ujis": _euc_jp,
}  # fmt: skip
