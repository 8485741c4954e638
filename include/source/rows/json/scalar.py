"""Scalars of MySQL's binary JSON that are no plain numbers or strings → the text that SELECT shows of them.

Doubles: `my_gcvt` in the server's `dtoa.cc`; opaque values: `json_dom.cc`, `my_time.cc`, `decimal.cc`.
"""

from __future__ import annotations

import binascii
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final

from include.source.malformed import Malformed

__all__ = ["double_text", "opaque_text"]

_TIMESTAMP, _DATE, _TIME, _DATETIME, _DECIMAL, _VAR_STRING = 7, 10, 11, 12, 246, 253
_LINE: Final = 57
# Bytes that so many digits take.
_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def double_text(value: float) -> str:
    """The shortest digits that read back as `value`.

    They stand without exponent from 1e-15 on, and up to 1e15 or where there are digits behind the point. Raises
    `ValueError` for what is no number: JSON has none.
    """
    text = repr(value)
    if "e" not in text:
        if len(text) < 18:
            if text[-1] in "nf":
                raise Malformed("JSON with a number that is none")
            return text
        # Python goes on without exponent for one digit more.
        digits = text.removesuffix(".0")
        if digits == text or len(digits) - (value < 0) < 16:
            return text
        sign, digits = digits[: value < 0], digits[value < 0 :]
        exponent, digits = len(digits) - 1, digits.rstrip("0")
    else:
        mantissa, _, power = text.partition("e")
        sign, digits = mantissa[: value < 0], mantissa[value < 0 :].replace(".", "")
        exponent = int(power)
        if -15 <= exponent < 0:
            return f"{sign}0.{'0' * (-1 - exponent)}{digits}"
    point = "." if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{point}{digits[1:]}e{exponent}"


def opaque_text(kind: int, data: bytes) -> str:
    """The text of a value that JSON has no type for, by its type of column; raises `ValueError`."""
    if kind == _DECIMAL:
        return _decimal(data)
    if kind in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        if len(data) != 8:
            raise Malformed(f"a moment of {len(data)} bytes in JSON")
        packed = int.from_bytes(data, "little", signed=True)
        return f'"{_time(packed) if kind == _TIME else _moment(packed, kind)}"'
    if kind == _VAR_STRING:
        return encode_basestring(data.decode())
    # The server breaks lines of base64, and then escapes the line feeds.
    lines = [binascii.b2a_base64(data[i : i + _LINE], newline=False).decode() for i in range(0, len(data), _LINE)]
    return f'"base64:type{kind}:' + "\\n".join(lines) + '"'


@lru_cache(256)
def _groups(precision: int, scale: int) -> tuple[tuple[int, int], ...]:
    """(bytes, digits) of each group, first the whole part's."""
    if not 0 < precision <= 65 or scale > precision:
        raise Malformed(f"a decimal of {precision} digits, {scale} behind the point, in JSON")
    whole = precision - scale
    digits = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    return tuple((_DIGIT_BYTES[each], each) for each in digits if each)


def _decimal(data: bytes) -> str:
    if len(data) < 3:
        raise Malformed(f"a decimal of {len(data)} bytes in JSON")
    precision, scale = data[0], data[1]
    groups = _groups(precision, scale)
    size = len(data) - 2
    if size != sum(each for each, _ in groups):
        raise Malformed(f"a decimal of {precision} digits in {size} bytes in JSON")
    # The top bit is set in what is not negative; all other bits of what is negative are inverted.
    raw = int.from_bytes(data[2:], "big") ^ 1 << 8 * size - 1
    negative = raw >> 8 * size - 1
    if negative:
        raw ^= (1 << 8 * size) - 1
    shift, text = 8 * size, ""
    for width, digits in groups:
        shift -= 8 * width
        group = str(raw >> shift & (1 << 8 * width) - 1)
        if len(group) > digits:
            raise Malformed(f"{len(group)} digits where a decimal in JSON has {digits}")
        text += group.zfill(digits)
    whole = text[: precision - scale].lstrip("0") or "0"
    return f"{'-' if negative else ''}{whole}{'.' if scale else ''}{text[precision - scale :]}"


def _time(packed: int) -> str:
    """Microseconds (24 bits), second (6), minute (6), hour (10), all of them negated before zero."""
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    return sign + _clock(packed & 0xFFFFFF, packed >> 24, 838)


def _moment(packed: int, kind: int) -> str:
    """Microseconds (24 bits), second (6), minute (6), hour (5), day (5), year · 13 + month."""
    day, months = packed >> 41 & 31, packed >> 46
    year, month = divmod(months, 13)
    if not 0 <= year <= 9999:
        raise Malformed("a year beyond 9999 in JSON")
    clock = _clock(packed & 0xFFFFFF, packed >> 24 & 0x1FFFF, 23)
    date = f"{year:04}-{month:02}-{day:02}"
    return date if kind == _DATE else f"{date} {clock}"


def _clock(micros: int, rest: int, most: int) -> str:
    hour, minute, second = rest >> 12, rest >> 6 & 63, rest & 63
    if hour > most or minute > 59 or second > 59 or micros > 999_999:
        raise Malformed("a time of no clock in JSON")
    return f"{hour:02}:{minute:02}:{second:02}.{micros:06}"
