"""Predicts what a server does with a value in a field of one type (facts seen on Elasticsearch 8.19 and 9.2).

The server keeps what was sent and searches what its field made of it. Three things can go wrong, from worst:

* refused: every value sets its document aside.
* coerced: searches, sorting and sums see another value than the document shows, and nobody is told.
* limited: right, but for some values that are refused or hidden, or for ways of asking that the type lacks.

`tests/contract/test_coercion.py` puts values through a real node for each row; types that the small distribution
lacks (scaled_float, unsigned_long, wildcard, ...) are as documented.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from include.index.mapping.value_types import Leaf

__all__ = ["KNOWN_TYPES", "CoercionLevel", "ValueEffect", "effects_of"]

CoercionLevel = Literal["refused", "coerced", "limited"]
Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ValueEffect:
    """One thing that happens to values of a form in a field; `reason` is for people."""

    level: CoercionLevel
    reason: str


Rule = Callable[[Leaf, Params], "tuple[ValueEffect, ...]"]

_NUMBERS: Final = frozenset({"int", "long", "float", "double"})
_TIMES: Final = frozenset({"date", "timestamp_millis", "timestamp_micros", "timestamp"})
_FREE: Final = frozenset({"text", "bytes"})
"""Kinds whose text can be anything."""

# Shortest and longest text of kinds that have one.
_LENGTHS: Final[dict[str, tuple[int, int]]] = {
    "boolean": (4, 5),
    "int": (1, 11),
    "long": (1, 20),
    "float": (1, 24),
    "double": (1, 24),
    "uuid": (36, 36),
    "date": (10, 10),
    "time": (8, 15),
    "timestamp_millis": (20, 27),
    "timestamp_micros": (20, 27),
    "timestamp": (20, 35),
}
_EPOCHS: Final = {"epoch_millis": "milliseconds", "epoch_second": "seconds"}

_USUAL_FORMAT: Final = "strict_date_optional_time||epoch_millis"
_TERM_BYTES: Final = 32_766
_BITS: Final[dict[str, int]] = {"byte": 7, "short": 15, "integer": 31, "long": 63, "unsigned_long": 64}
# Whole numbers are exact below 2^bits; so many decimal digits survive a round trip.
_MANTISSA: Final[dict[str, tuple[int, int]]] = {"half_float": (11, 3), "float": (24, 6), "double": (53, 15)}


def effects_of(leaf: Leaf, params: Params) -> tuple[ValueEffect, ...]:
    """Finds what happens to a scalar in a field of these parameters; none when all values are searched as sent."""
    kind = str(params.get("type", "object"))
    if leaf.kind == "null":
        return ()
    if kind == "object" and params.get("enabled") is False:
        return (_UNSEARCHED,)
    rule = _RULES.get(kind)
    if rule is None:
        return (ValueEffect("limited", f"type {kind} is not known here: try a document before the topic"),)
    effects = rule(leaf, params)
    hides = bool(params.get("ignore_malformed"))
    if hides:
        effects = tuple(_hidden(effect) for effect in effects)
    if params.get("index") is False and params.get("doc_values") is False:
        effects = (*effects, _UNSEARCHED)
    return effects


_REFUSED: Final = (ValueEffect("refused", "no value of this kind fits the type"),)
_UNSEARCHED: Final = ValueEffect("limited", "kept in the document, not searched")
_ORDER: Final = ValueEffect("limited", "kept as text: ranges and sorting go by text, not by value")


def _hidden(effect: ValueEffect) -> ValueEffect:
    """With `ignore_malformed` a value that does not fit is left out of searches instead of refused."""
    if effect.level == "refused":
        return ValueEffect("coerced", "ignore_malformed hides every value from searches")
    return ValueEffect(effect.level, effect.reason.replace("refused", "hidden from searches (ignore_malformed)"))


def _text(leaf: Leaf, _: Params) -> tuple[ValueEffect, ...]:
    return (_ORDER,) if leaf.kind in _NUMBERS or leaf.kind == "decimal" else ()


def _keyword(leaf: Leaf, params: Params) -> tuple[ValueEffect, ...]:
    effects = list(_text(leaf, params))
    above = params.get("ignore_above")
    shortest, longest = _lengths(leaf)
    if above is not None and above < shortest:
        return (
            ValueEffect("coerced", f"ignore_above hides every value from searches: {shortest} characters at least"),
        )
    if above is not None and (longest is None or above < longest):
        effects.append(ValueEffect("limited", f"texts of over {above:,} characters are hidden from searches"))
    # A UTF-16 unit is 3 bytes of UTF-8 at most.
    if leaf.kind in _FREE and (above is None or above * 3 > _TERM_BYTES):
        effects.append(ValueEffect("limited", f"texts of over {_TERM_BYTES:,} bytes are refused"))
    if params.get("normalizer"):
        effects.append(ValueEffect("limited", "searched, sorted and counted in the normalizer's form"))
    return tuple(effects)


def _lengths(leaf: Leaf) -> tuple[int, int | None]:
    """The shortest and the longest text of a kind; None where there is no longest one that is known."""
    if leaf.kind == "decimal":
        # A sign, a point and a zero before it.
        return 1 + (leaf.scale + 1 if leaf.scale else 0), leaf.precision + 3
    return _LENGTHS.get(leaf.kind, (0, None))


def _boolean(leaf: Leaf, _: Params) -> tuple[ValueEffect, ...]:
    if leaf.kind == "boolean":
        return ()
    if leaf.kind in ("text", "enum"):
        return (ValueEffect("coerced", 'only "true", "false" are right: "" becomes false, all others are refused'),)
    return _REFUSED


def _whole(leaf: Leaf, params: Params) -> tuple[ValueEffect, ...]:
    kind, coerce = str(params["type"]), params.get("coerce") is not False
    bits = _BITS[kind]
    beyond = ValueEffect("limited", f"numbers from 2^{bits} on are refused")
    if leaf.kind in ("int", "long"):
        sign = (ValueEffect("limited", "negative numbers are refused"),) if kind == "unsigned_long" else ()
        return (*sign, *((beyond,) if (31 if leaf.kind == "int" else 63) > bits else ()))
    if leaf.kind in ("float", "double"):
        cut = ValueEffect("coerced", "the fraction is cut: 5.9 becomes 5")
        return (cut if coerce else ValueEffect("limited", "numbers with a fraction are refused"), beyond)
    if not coerce or leaf.kind not in ("decimal", *_FREE):
        return _REFUSED
    if leaf.kind == "decimal":
        cut_off = (ValueEffect("coerced", "the fraction is cut: 5.9 becomes 5"),) if leaf.scale else ()
        whole_digits = leaf.precision - leaf.scale
        return (*cut_off, *((beyond,) if 10**whole_digits > 1 << bits else ()))
    zero = ', "NaN" 0' if bits < 63 else ""
    return (
        ValueEffect("coerced", f'read as a number, others are refused: "5.9" becomes 5, "5e2" 500, "" nothing{zero}'),
    )


def _binary_fraction(leaf: Leaf, params: Params) -> tuple[ValueEffect, ...]:
    kind, coerce = str(params["type"]), params.get("coerce") is not False
    bits, digits = _MANTISSA[kind]
    limit = {"half_float": "65,504", "float": "3.4e38"}.get(kind)
    beyond = (ValueEffect("limited", f"numbers beyond {limit} are refused"),) if limit else ()
    if leaf.kind in ("int", "long"):
        inexact = (31 if leaf.kind == "int" else 63) > bits
        rounded = (ValueEffect("coerced", f"whole numbers beyond 2^{bits} are rounded"),) if inexact else ()
        return (*rounded, *(beyond if kind == "half_float" else ()))
    if leaf.kind in ("float", "double"):
        narrower = (24 if leaf.kind == "float" else 53) > bits
        return (ValueEffect("coerced", f"rounded to {digits} digits"), *beyond) if narrower else ()
    if not coerce or leaf.kind not in ("decimal", *_FREE):
        return _REFUSED
    if leaf.kind == "decimal":
        too_long = leaf.precision > digits
        rounded = (ValueEffect("coerced", f"exact to {digits} digits, rounded beyond"),) if too_long else ()
        return (*rounded, *(beyond if limit and leaf.precision - leaf.scale > 4 and kind == "half_float" else ()))
    return (ValueEffect("coerced", 'read as a number, others are refused: "5e2" becomes 500, "" nothing'),)


def _scaled(leaf: Leaf, params: Params) -> tuple[ValueEffect, ...]:
    places = math.log10(float(params.get("scaling_factor", 1)))
    if leaf.kind == "decimal" and params.get("coerce") is not False:
        exact = leaf.scale <= places and leaf.precision <= _MANTISSA["double"][1]
        return () if exact else (ValueEffect("coerced", "rounded to the scaling factor, exact to 15 digits"),)
    if leaf.kind == "int":
        return ()
    if leaf.kind in _NUMBERS:
        return (ValueEffect("coerced", "rounded to the scaling factor, exact to 15 digits"),)
    return _binary_fraction(leaf, {**params, "type": "double"})


def _date(leaf: Leaf, params: Params) -> tuple[ValueEffect, ...]:
    nanos = params["type"] == "date_nanos"
    form = str(params.get("format", _USUAL_FORMAT))
    parts = form.split("||")
    epochs = [part for part in parts if part in _EPOCHS]
    iso = "date_optional_time" in form
    if leaf.kind in _TIMES:
        return _of_times(leaf, form, nanos=nanos) if iso or len(epochs) < len(parts) else _REFUSED
    if leaf.kind in _NUMBERS:
        if not epochs:
            return (
                ValueEffect(
                    "coerced", f"read by format {form}, whatever it counts; what that does not take is refused"
                ),
            )
        unit = _EPOCHS[epochs[0]]
        return (ValueEffect("coerced", f"read as {unit} since 1970, whatever it counts; out of range is refused"),)
    if leaf.kind == "decimal" and form == _USUAL_FORMAT:
        return (ValueEffect("coerced", "read as a year, or as milliseconds since 1970; out of range is refused"),)
    if leaf.kind in _FREE and form == _USUAL_FORMAT:
        return (ValueEffect("coerced", '"2026" is read as a year, "5" as milliseconds; what is no date is refused'),)
    if leaf.kind in ("decimal", *_FREE):
        return (ValueEffect("coerced", f"read by format {form}; what that does not take is refused"),)
    if leaf.kind == "time" and not iso and len(epochs) < len(parts):
        return (ValueEffect("limited", f"what format {form} does not take is refused"),)
    return _REFUSED


def _of_times(leaf: Leaf, form: str, *, nanos: bool) -> tuple[ValueEffect, ...]:
    effects = []
    if "date_optional_time" not in form:
        effects.append(ValueEffect("limited", f"what format {form} does not take is refused"))
    if nanos:
        effects.append(ValueEffect("limited", "times before 1970 and after 2262-04-11 are refused"))
    elif leaf.kind in ("timestamp_micros", "timestamp"):
        effects.append(ValueEffect("coerced", "cut to milliseconds"))
    return tuple(effects)


def _geo_point(leaf: Leaf, _: Params) -> tuple[ValueEffect, ...]:
    if leaf.kind in ("enum", "decimal", *_FREE):
        return (ValueEffect("coerced", 'read as a geohash or as "lat,lon", even "5" and "true"; others are refused'),)
    return _REFUSED


def _ip(leaf: Leaf, _: Params) -> tuple[ValueEffect, ...]:
    return (ValueEffect("limited", "texts that are no address are refused"),) if leaf.kind == "text" else _REFUSED


def _binary(_: Leaf, __: Params) -> tuple[ValueEffect, ...]:
    return (_UNSEARCHED,)


def _never(_: Leaf, __: Params) -> tuple[ValueEffect, ...]:
    return _REFUSED


_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("keyword", "wildcard"), _keyword),
    **dict.fromkeys(("text", "match_only_text", "search_as_you_type"), _text),
    **dict.fromkeys(_BITS, _whole),
    **dict.fromkeys(_MANTISSA, _binary_fraction),
    **dict.fromkeys(("date", "date_nanos"), _date),
    **dict.fromkeys(("object", "nested", "flattened", "alias"), _never),
    "boolean": _boolean,
    "scaled_float": _scaled,
    "geo_point": _geo_point,
    "ip": _ip,
    "binary": _binary,
}
KNOWN_TYPES: Final = frozenset(_RULES)
"""Types of fields that this table knows."""
