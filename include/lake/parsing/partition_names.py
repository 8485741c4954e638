"""Partition names: the folders below a topic that a message belongs to, as Hive, Spark and DuckDB read them.

`dt=2026-11-21/hr=10`, `offset=3000000`, `country=de`. Values of content are escaped as Hive does; null and empty are
both `__HIVE_DEFAULT_PARTITION__`, as no reader of folders can tell them apart.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from include.lake.parsing.event_time import LEAST_US, MOST_US
from include.lake.parsing.fields import PathField, invalid
from include.lake.parsing.zones import ZoneName, zone
from include.settings.deployment import Strict

__all__ = [
    "HIVE_NULL",
    "MOST_BYTES",
    "SEGMENT_BYTES",
    "ContentName",
    "NameRule",
    "OffsetName",
    "PartitionLayout",
    "TimeName",
    "check_names",
    "content_names",
    "folder_names",
    "offset_name",
    "time_names",
]

PartitionLayout = Literal["hive", "secor"]
"""hive: `dt=2026-11-21`; secor: `2026-11-21`."""

HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
MOST_BYTES: Final = 512
"""Of all names of a message, with the slashes between them: of S3's 1,024 bytes the rest is for prefix, topic, file."""
SEGMENT_BYTES: Final = 255
"""Of one name: what file systems behind S3 servers take."""

_REMEMBERED: Final = 8192
# No zone changes its offset twice within a quarter of an hour.
_QUARTER_US: Final = 900_000_000
# `FileUtils.escapePathName` of Hive and `ExternalCatalogUtils` of Spark.
_ESCAPED: Final = {code: f"%{code:02X}" for code in (*range(32), 127, *b"\"#%'*/:=?\\{[]^")}
# XML cannot list the last two; C1 controls and line separators are read back differently from reader to reader.
_REFUSED: Final = frozenset([*range(0x80, 0xA0), 0x2028, 0x2029, 0xFFFE, 0xFFFF])


class TimeName(Strict):
    """`dt=YYYY-MM-DD`, and `hr=HH` with `by: hour`, of the event time."""

    by: Literal["day", "hour"]
    """How long one folder's time is."""
    zone: ZoneName = Field(default="UTC", description="whose days and hours these are")
    layout: PartitionLayout = "hive"
    """hive: `dt=2026-11-21`; secor: `2026-11-21`."""


class OffsetName(Strict):
    """`offset=<rounded down to a multiple of step>`."""

    by: Literal["offset"]
    step: int = Field(ge=1)
    """Offsets of one folder."""


class ContentName(Strict):
    """`<name>=<value at field>`: a text, a whole number or a truth value."""

    by: Literal["field"]
    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")
    """The folder's name."""
    field: PathField
    """Path of the value."""
    null: Literal["keep", "refuse"] = Field(default="keep", description="keep: null and empty are Hive's null")


NameRule = Annotated[TimeName | OffsetName | ContentName, Field(discriminator="by")]


def folder_names(rules: Sequence[NameRule]) -> list[str]:
    """What readers take for columns: the names before `=`, in order."""
    names: list[str] = []
    for rule in rules:
        if isinstance(rule, ContentName):
            names.append(rule.name)
        elif isinstance(rule, OffsetName):
            names.append("offset")
        elif rule.layout == "hive":
            names += ["dt", "hr"] if rule.by == "hour" else ["dt"]
    return names


def offset_name(offset: int, step: int) -> str:
    """The folder of an offset; in backup, of a cut's first."""
    return f"offset={offset - offset % step}"


def time_names(rule: TimeName) -> Callable[[int], tuple[str, ...]]:
    """Event time in microseconds → one name or two; the same tuple for times of the same hour."""
    where, hourly, hive = zone(rule.zone), rule.by == "hour", rule.layout == "hive"
    known: dict[int, tuple[str, ...]] = {}
    made: dict[tuple[str, ...], tuple[str, ...]] = {}

    def exact(us: int) -> tuple[str, ...]:
        names = _time_text(us, where, hourly, hive)
        return made.setdefault(names, names)

    def names(us: int) -> tuple[str, ...]:
        quarter = us // _QUARTER_US
        quarter_names = known.get(quarter)
        if quarter_names is None:
            if len(known) >= _REMEMBERED:
                known.clear()
                made.clear()
            start = quarter * _QUARTER_US
            quarter_names = exact(max(start, LEAST_US))
            if exact(min(start + _QUARTER_US, MOST_US) - 1) != quarter_names:
                # Hours of old local times began at odd minutes.
                quarter_names = ()
            known[quarter] = quarter_names
        return quarter_names or exact(us)

    return names


def _time_text(us: int, where: ZoneInfo, hourly: bool, hive: bool) -> tuple[str, ...]:
    # Whole seconds: no float, and offsets have no finer parts.
    utc = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=us // 1_000_000)
    local = utc.astimezone(where)
    day = f"{local.year:04}-{local.month:02}-{local.day:02}"
    if not hourly:
        return (f"dt={day}",) if hive else (day,)
    return (f"dt={day}", f"hr={local.hour:02}") if hive else (day, f"{local.hour:02}")


def content_names(rule: ContentName) -> Callable[[Any], tuple[str, ...]]:
    """Value of the field → its name; `InvalidRecord` for a value that makes none."""
    name, refuse = rule.name, rule.null == "refuse"
    known: dict[Any, tuple[str, ...]] = {}

    def names(value: Any) -> tuple[str, ...]:
        # 1, True and 1.0 are equal as keys, but not as names; texts and bytes are looked up as they are.
        plain = type(value) in (str, bytes)
        made = known.get(value) if plain else None
        if made is None:
            made = (f"{name}={_value(value, name, refuse)}",)
            check_names(made)
            if plain:
                if len(known) >= _REMEMBERED:
                    known.clear()
                known[value] = made
        return made

    return names


def _value(value: Any, name: str, refuse: bool) -> str:
    match value:
        case None:
            text = ""
        case bool():
            text = "true" if value else "false"
        case int() if abs(value) < 1 << 64:
            return str(value)
        case str():
            text = value
        case bytes():
            try:
                text = value.decode()
            except UnicodeDecodeError:
                raise invalid("the value of a partition is no UTF-8", "name bytes", name=name, value=value) from None
        case _:
            raise invalid(
                "the value of a partition is no text, whole number or truth value", "name type", name=name, value=value
            )
    if text == "":
        if refuse:
            raise invalid("the value of a partition is null or empty", "name missing", name=name)
        return HIVE_NULL
    if text == HIVE_NULL:
        # Readers take it for null unless a sign of it is escaped.
        return "%5F" + text[1:]
    return text.translate(_ESCAPED)


def check_names(names: Sequence[Any]) -> None:
    """Raise `InvalidRecord` unless the names can be nested folders of an object's key."""
    total = len(names) - 1
    for name in names:
        if not isinstance(name, str) or name in ("", ".", "..") or name[0] in "_.":
            raise invalid("no name of a partition", "name", name=name)
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise invalid("a partition name has half a surrogate pair", "name bytes", name=name) from None
        if any(ord(sign) < 32 or sign in "/\\\x7f" or ord(sign) in _REFUSED for sign in name):
            raise invalid("a sign that cannot stand in a partition name", "name sign", name=name)
        if size > SEGMENT_BYTES:
            raise invalid(f"a partition name is longer than {SEGMENT_BYTES} bytes", "name size", name=name, size=size)
        total += size
    if total > MOST_BYTES:
        raise invalid(f"partition names are longer than {MOST_BYTES} bytes together", "name size", size=total)
