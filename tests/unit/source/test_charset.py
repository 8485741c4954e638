"""Against what real servers say of every sequence of bytes: `tests/golden/charsets-<server>.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import Terminal
from include.source.charsets.charset import (
    CHARSETS,
    charset_of,
    is_utf8,
    max_bytes,
    single_byte_table,
    text_decoder,
)

GOLDEN = {path.stem: json.loads(path.read_text("utf-8")) for path in Path("tests/golden").glob("charsets-*.json")}
UNICODE = {
    "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be",
    "utf8mb3": "utf-8", "utf8mb4": "utf-8",
}  # fmt: skip
EACH = [(server, charset) for server in GOLDEN for charset in GOLDEN[server]["charsets"]]
OWN = [(server, charset) for server, charset in EACH if charset not in UNICODE]
SINGLE = [(server, charset) for server, charset in OWN if GOLDEN[server]["charsets"][charset]["max_bytes"] == 1]
MULTI = [pair for pair in OWN if pair not in SINGLE]
DIGITS = range(0x30, 0x3A)


def character(decode: Callable[[bytes], str], data: bytes) -> str | None:
    try:
        return decode(data)
    except ValueError:
        return None


def sequences(charset: str, lead: int) -> Iterator[bytes]:
    """All bytes of up to three that begin with `lead` and may be one character, in order."""
    yield bytes((lead,))
    for second in range(0x100) if lead >= 0x80 else ():
        yield bytes((lead, second))
        if lead == 0x8F and charset in ("ujis", "eucjpms"):
            yield from (bytes((lead, second, third)) for third in range(0x100))


def characters(charset: str, lead: int) -> dict[bytes, str]:
    decode = text_decoder(charset)
    found = {data: character(decode, data) for data in sequences(charset, lead)}
    if charset == "gb18030" and lead >= 0x80:
        for second in DIGITS:
            found |= four_bytes(decode, lead, second)
    return {data: text for data, text in sorted(found.items()) if text is not None and len(text) == 1}


def four_bytes(decode: Callable[[bytes], str], lead: int, second: int) -> dict[bytes, str | None]:
    every = [bytes((lead, second, third, last)) for third in range(0x81, 0xFF) for last in DIGITS]
    text = character(decode, b"".join(every))
    if text is not None and len(text) == len(every):
        return dict(zip(every, text, strict=True))
    if all(character(decode, data) is None for data in (*every[::7], every[-1])):
        return {}  # Half a million of them: a run that is longer than six would have been seen.
    return {data: character(decode, data) for data in every}


@cache
def leads(charset: str) -> tuple[dict[str, str], int]:
    """(digest of the characters of each first byte, how many there are)."""
    known = {f"{lead:02x}": characters(charset, lead) for lead in range(256)}
    return {lead: digest(each) for lead, each in known.items() if each}, sum(map(len, known.values()))


@cache
def all_text(top: int) -> str:
    return "".join(map(chr, (*range(0xD800), *range(0xE000, top))))


def digest(known: dict[bytes, str]) -> str:
    lines = "".join(f"{data.hex()}={ord(text):x}\n" for data, text in known.items())
    return hashlib.sha256(lines.encode("ascii")).hexdigest()[:16]


def said(server: str, charset: str) -> Any:
    return GOLDEN[server]["charsets"][charset]


def test_there_are_recordings_of_both_flavours() -> None:
    assert {value["flavour"] for value in GOLDEN.values()} == {"mariadb", "mysql"}


@pytest.mark.parametrize(("server", "charset"), EACH)
def test_a_charset_has_the_length_that_the_server_counts(server: str, charset: str) -> None:
    assert max_bytes(charset) == said(server, charset)["max_bytes"]


@pytest.mark.parametrize(("server", "charset"), SINGLE)
def test_every_byte_is_the_character_that_the_server_makes_of_it(server: str, charset: str) -> None:
    expected = ["" if code == "-" else chr(int(code, 16)) for code in said(server, charset)["map"].split()]
    decode = text_decoder(charset)
    assert [character(decode, bytes((byte,))) or "" for byte in range(256)] == expected
    assert single_byte_table(charset) == tuple(expected)


@pytest.mark.parametrize(("server", "charset"), MULTI)
def test_every_sequence_is_the_character_that_the_server_makes_of_it(server: str, charset: str) -> None:
    digests, count = leads(charset)
    assert digests == said(server, charset)["leads"]
    assert count == said(server, charset)["characters"]
    assert single_byte_table(charset) is None


@pytest.mark.parametrize(("server", "charset"), [pair for pair in EACH if pair not in OWN])
def test_every_code_point_is_read_from_a_unicode_charset(server: str, charset: str) -> None:
    golden = said(server, charset)
    assert golden["differing_blocks"] == []
    text = all_text(golden["characters"] + 0x800)
    assert text_decoder(charset)(text.encode(UNICODE[charset])) == text


@pytest.mark.parametrize(("server", "charset"), [pair for pair in EACH if pair not in OWN])
def test_what_is_no_unicode_text_is_refused(server: str, charset: str) -> None:
    decode = text_decoder(charset)
    for data, (kept, text) in said(server, charset)["special"].items():
        convertible = kept == data and text and b"?" not in bytes.fromhex(text)
        expected = character(bytes.decode, bytes.fromhex(text)) if convertible else None
        assert character(decode, bytes.fromhex(data)) == expected, data


@pytest.mark.parametrize("server", GOLDEN)
def test_every_collation_of_a_server_has_its_charset(server: str) -> None:
    for charset, spans in GOLDEN[server]["collations"].items():
        for span in spans.split():
            first, _, last = span.partition("-")
            for number in range(int(first), int(last or first) + 1):
                assert charset_of(number, GOLDEN[server]["flavour"]) == charset


@cache
def some(charset: str) -> list[tuple[bytes, str]]:
    """Characters of all lengths, among them those that codecs read otherwise."""
    return [item for lead in (0x5C, 0x7E, 0x81, 0x8E, 0x8F, 0xA1, 0xA4, 0xAD, 0xC6, 0xF5, 0xFC)
            for item in list(characters(charset, lead).items())[:400]]  # fmt: skip


@given(st.data())
@settings(deadline=None)
def test_text_is_its_characters_in_a_row(data: st.DataObject) -> None:
    charset = data.draw(st.sampled_from(sorted({charset for _, charset in MULTI})))
    pairs = data.draw(st.lists(st.sampled_from(some(charset)), max_size=12))
    assert text_decoder(charset)(b"".join(each for each, _ in pairs)) == "".join(text for _, text in pairs)


@given(st.sampled_from(CHARSETS), st.binary(max_size=20))
def test_any_bytes_are_text_that_utf8_holds_or_refused(charset: str, data: bytes) -> None:
    text = character(text_decoder(charset), data)
    assert text is None or text.encode().decode() == text
    assert text is None or not is_utf8(charset) or text.encode() == data


def test_the_make_up_sequence_of_ks_x_1001_stays_four_characters() -> None:
    assert text_decoder("euckr")(bytes.fromhex("a4d4a4a1a4bfa4d4")) == "\u3164\u3131\u314f\u3164"


def test_latin1_has_c1_controls_where_windows_has_nothing() -> None:
    assert text_decoder("latin1")(b"\x80\x81\x8d\xff") == "\u20ac\x81\x8d\xff"


def test_a_cut_character_is_refused() -> None:
    cut = {
        "sjis": b"\x83",
        "ujis": b"\x8f\xb0",
        "gb18030": b"\x81\x30\x81",
        "utf8mb4": b"\xf0\x9f\x98",
        "utf16": b"\xd8",
    }
    for charset, data in cut.items():
        assert character(text_decoder(charset), b"A" * (charset != "utf16") + data) is None, charset


def test_old_servers_call_utf8mb3_utf8() -> None:
    assert (text_decoder("utf8")("ü€".encode()), max_bytes("utf8"), is_utf8("utf8")) == ("ü€", 3, True)


def test_a_supplementary_character_is_no_text_of_three_byte_charsets() -> None:
    for charset, data in (("utf8mb3", "😀".encode()), ("utf8", "😀".encode()), ("ucs2", "😀".encode("utf-16-be"))):
        assert character(text_decoder(charset), data) is None


@pytest.mark.parametrize("ask", [text_decoder, max_bytes, single_byte_table])
def test_a_name_that_is_no_charset_is_refused_with_those_that_are(ask: Callable[[str], object]) -> None:
    with pytest.raises(Terminal, match="latin1"):
        ask("klingon")


def test_binary_is_no_text_and_has_one_byte_a_character() -> None:
    with pytest.raises(Terminal):
        text_decoder("binary")
    assert max_bytes("binary") == 1
    assert "binary" not in CHARSETS


def test_charsets_are_sorted_and_all_have_a_decoder() -> None:
    assert list(CHARSETS) == sorted(CHARSETS)
    assert all(text_decoder(charset)(b"") == "" for charset in CHARSETS)
