"""Records of both sides as rows that SQL can join and compare: every value as text, decoded by nobody's own code.

An input's row gives `grouped`, its fields of the output's key, and `shown`, those of the value, as JSON. So an output
is the texts of its inputs' rows, one behind the other, on both sides.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from include.errors import InvalidRecord
from include.join.algorithm.versions import vector_from_header
from include.join.config.check import CheckedJoin
from include.log.ports import Record
from include.record.codec import Decoder
from include.record.version import from_headers, version_of

__all__ = ["InputRow", "InputSide", "OutputRow", "OutputSide", "text_of"]


class InputRow(NamedTuple):
    """A record of an input; `join_key` None: it joins nothing. `live`: it stands for a row that `where` lets in.

    `key` None: the record cannot be read.
    """

    key: bytes | None
    version: int
    partition: int
    offset: int
    live: bool
    join_key: str | None
    grouped: str
    shown: str


class OutputRow(NamedTuple):
    """A record of the joined topic; `vector`: the versions of the rows that it was made of, as its header has them.

    `raw`: its key, in hexadecimal digits.
    """

    key: str
    raw: str
    version: int
    live: bool
    vector: str
    shown: str


def text_of(values: Mapping[str, Any] | Sequence[Any]) -> str:
    """Values as JSON text: equal texts, equal values."""
    return json.dumps(values, default=_plain, ensure_ascii=False, separators=(",", ":"))


class InputSide:
    """Reads the records of one input.

    Args:
        join: the join.
        number: position of the input.
        decoder: of keys and values.
    """

    def __init__(self, join: CheckedJoin, number: int, decoder: Decoder) -> None:
        self._change = join.inputs[number].schema.change
        self._definition = join.join.join[number]
        self._grouped = [(each.field, each.name) for each in join.plan.key if each.input == number]
        self._shown = join.plan.values[number]
        self._decoder = decoder

    def row(self, record: Record) -> InputRow:
        """What a record says of its row."""
        coordinates = record.partition, record.offset
        try:
            if record.key is None:
                raise InvalidRecord("record of a keyed input has no key", reason="key")
            version = version_of(record.headers, record.offset, change=self._change)
            key, value = self._decoder(record.key), None if record.value is None else self._decoder(record.value)
            if value is not None and self._change:
                value = None if value["op"] == "d" else value["after"]
        except (InvalidRecord, KeyError, TypeError):
            return InputRow(None, 0, *coordinates, False, None, "", "")
        if value is None or not isinstance(value, Mapping):
            return InputRow(record.key, version, *coordinates, False, None, "", "")
        of_row, of_key = {**key, **value}, {**value, **key}
        live = all(of_row.get(field) in wanted for field, wanted in self._definition.where.items())
        joined = [of_row.get(field) for field in self._definition.join_keys]
        return InputRow(
            record.key,
            version,
            *coordinates,
            live,
            None if None in joined else text_of(joined),
            text_of({name: of_key.get(field) for field, name in self._grouped}),
            text_of({name: of_row.get(field) for field, name in self._shown}),
        )

    def absent(self) -> tuple[str, str]:
        """What stands in an output for no row: its `grouped` and `shown`."""
        return (
            text_of(dict.fromkeys(name for _, name in self._grouped)),
            text_of(dict.fromkeys(name for _, name in self._shown)),
        )


class OutputSide:
    """Reads the joined topic's records."""

    def __init__(self, join: CheckedJoin, decoder: Decoder) -> None:
        inputs = range(len(join.inputs))
        self._keys = [[each.name for each in join.plan.key if each.input == i] for i in inputs]
        self._values = [[name for _, name in join.plan.values[i]] for i in inputs]
        self._decoder = decoder

    def row(self, record: Record) -> OutputRow:
        """What a record says; raises `InvalidRecord` for one that no join wrote."""
        if record.key is None:
            raise InvalidRecord("record of a joined topic has no key", reason="key")
        key = self._decoder(record.key)
        vector = ",".join("" if each is None else str(each) for each in vector_from_header(record.headers))
        value: Mapping[str, Any] = {} if record.value is None else self._decoder(record.value)
        shown = [] if record.value is None else [_texts(names, value) for names in self._values]
        grouped = "".join(_texts(names, key) for names in self._keys)
        raw = record.key.hex()
        return OutputRow(grouped, raw, from_headers(record.headers), record.value is not None, vector, "".join(shown))


def _texts(names: Sequence[str], values: Mapping[str, Any]) -> str:
    # A record of before a field was there: it is null to who reads it by the newest schema.
    return text_of({name: values.get(name) for name in names})


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value.normalize())}
    if isinstance(value, dt.datetime | dt.date | dt.time | dt.timedelta):
        return {"time": str(value)}
    return {type(value).__name__: str(value)}
