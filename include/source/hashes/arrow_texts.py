"""The text of a row (`columns`) over Arrow batches, as Spark's workers read them of a lake table or of a topic.

In Arrow and not in Spark's SQL, which takes six times as long for the same texts and sums.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute
import pyarrow.lib as pa
from pyarrow.types import is_decimal

from include.policy.masks import HashMask
from include.record.schema import avro_name
from include.source.hashes.columns import ComparedColumn, ComparedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ArrowTexts", "crcs", "halves"]

pc: Final[Any] = pyarrow.compute
_TEXT: Final = pa.string()
_POINT: Final = 20
"""Characters before the fraction of a moment, with its point."""
_PRINTED_SCALE: Final = 6
"""Arrow prints decimals of more digits behind the point with an exponent where they are small."""
_EXACT: Final = Context(prec=76)
_DATES: Final = frozenset({"date", "datetime", "timestamp"})


class ArrowTexts:
    """Makes texts of batches that have columns by Avro's names; one that a batch lacks is null."""

    def __init__(self, rows: ComparedRows) -> None:
        self._rows = rows

    def keys(self, batch: Any) -> Any:
        """The texts of the rows' keys, as binary."""
        return self._joined(self._rows.key, batch)

    def rows(self, batch: Any) -> Any:
        """The texts of the rows, as binary."""
        return self._joined(self._rows.columns, batch)

    def _joined(self, columns: Iterable[ComparedColumn], batch: Any) -> Any:
        parts: list[Any] = []
        for each in columns:
            text = self.values(each, batch)
            if each.sized:
                # A null text is left out where they are joined; its length tells.
                parts.append(pc.fill_null(pc.cast(pc.binary_length(text), _TEXT), "N"))
                parts.append(text)
            else:
                parts.append(pc.fill_null(text, "N"))
        return pc.binary_join_element_wise(*parts, ";", null_handling="skip").cast(pa.binary())

    def values(self, compared: ComparedColumn, batch: Any) -> Any:
        """The texts of a column's values, null for null."""
        name = avro_name(compared.column.name)
        if name not in batch.schema.names:
            values = pa.nulls(batch.num_rows, _TEXT)
        else:
            values = self._texts(compared, _whole(batch.column(name)))
        return self._with_invalid(compared, values, batch) if compared.kind in _DATES else values

    def _texts(self, compared: ComparedColumn, values: Any) -> Any:
        if isinstance(compared.mask, HashMask):
            return values.cast(_TEXT)
        match compared.kind:
            case "number":
                return _numbers(values, compared.column.scale or 0)
            case "double":
                return _doubles(values)
            case "date" | "time" | "text":
                return values.cast(_TEXT)
            case "datetime" | "timestamp":
                return _moments(values, compared.column.digits)
            case "long_text" | "bytes":
                digest = self._digest
                return _each(values.cast(pa.binary()), lambda value: digest(value).hex())
            case "hex":
                return _each(values, lambda value: value.hex().upper())

    def _with_invalid(self, compared: ComparedColumn, values: Any, batch: Any) -> Any:
        name = self._rows.invalid
        if not name or name not in batch.schema.names:
            return values
        invalid = _whole(batch.column(name))
        if invalid.null_count == len(invalid):
            return values
        said = [None if each is None else dict(each).get(compared.column.name) for each in invalid.to_pylist()]
        return pc.coalesce(values, pa.array(said, _TEXT))

    def _digest(self, data: bytes) -> bytes:
        if self._rows.digest == "md5":
            return hashlib.md5(data, usedforsecurity=False).digest()
        return hashlib.sha256(data).digest()[:16]

    def hashes(self, batch: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each row the first and the second 32 bits of its hash: their sums run over only after 2^31 rows."""
        digest = self._digest
        data = b"".join([digest(text) for text in self.rows(batch).to_pylist()])
        return halves(data)


def halves(digests: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and the second 32 bits of hashes of 16 bytes each."""
    words = np.frombuffer(digests, ">u4").reshape(-1, 4)
    return words[:, 0].astype(np.int64), words[:, 1].astype(np.int64)


def crcs(texts: Any) -> NDArray[np.int64]:
    """CRC-32 of texts, of which leaves are made (`sums.leaf_of`)."""
    return np.fromiter(map(zlib.crc32, texts.to_pylist()), np.int64, len(texts))


def _whole(values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _each(values: Any, text: Any) -> Any:
    return pa.array([None if value is None else text(value) for value in values.to_pylist()], _TEXT)


def _numbers(values: Any, scale: int) -> Any:
    kind = values.type
    if not is_decimal(kind) or (kind.scale == scale and scale <= _PRINTED_SCALE):
        return values.cast(_TEXT)
    return _each(values, lambda value: _decimal(value, scale))


def _decimal(value: Decimal, scale: int) -> str:
    """With the server's digits behind the point where that is the same number; older records may have others."""
    same = scale == -int(value.as_tuple().exponent)
    wanted = value if same else value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    return f"{wanted if wanted == value else value:f}"


def _doubles(values: Any) -> Any:
    numbers = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    mantissa, exponent = np.frexp(numbers)
    whole = pa.array((mantissa * (1 << 53)).astype(np.int64)).cast(_TEXT)
    texts = pc.binary_join_element_wise(whole, pa.array(exponent.astype(np.int64) - 1).cast(_TEXT), "p")
    texts = pc.if_else(pa.array(numbers == 0), "0", texts)
    return pc.if_else(pc.is_valid(values), texts, pa.scalar(None, _TEXT))


def _moments(values: Any, digits: int) -> Any:
    micros = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())
    texts = micros.view(pa.timestamp("us")).cast(_TEXT)
    if digits == 6:
        return texts
    short = pc.utf8_slice_codeunits(texts, 0, _POINT + digits if digits else _POINT - 1)
    rest = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False) % 10 ** (6 - digits)
    # More digits than the column has are told: such a row is another.
    return pc.if_else(pa.array(rest != 0), texts, short) if rest.any() else short
