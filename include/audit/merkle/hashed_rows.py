"""Turns a copy's rows into hashes to be summed up, or into texts of the rows of some leaves, in Spark's workers.

| column | for sums | for texts |
|---|---|---|
| `_lyrebird_leaf` | number of the leaf | the same |
| `_lyrebird_high`, `_lyrebird_low` | first and second 32 bits of the row's hash | |
| `_lyrebird_k`, `_lyrebird_r` | | text of the key, text of the row |

Beside them go the key and version of the record, what `change_rows` adds, and columns that SQL asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from include.lake.tables.columns import KEY, VERSION
from include.source.hashes.columns import ComparedRows
from include.source.hashes.sums import LEAF_BITS

__all__ = ["HIGH", "KEY_TEXT", "LEAF", "LOW", "ROW_TEXT", "HashedRows"]

LEAF: Final = "_lyrebird_leaf"
HIGH: Final = "_lyrebird_high"
LOW: Final = "_lyrebird_low"
KEY_TEXT: Final = "_lyrebird_k"
ROW_TEXT: Final = "_lyrebird_r"


@dataclass(frozen=True)
class HashedRows:
    """Turns batches of rows into batches of hashes or texts. Is pickled for Spark's workers.

    Args:
        rows: what is compared.
        asked: Arrow fields, as bytes of a schema, of columns that SQL asks for.
        bits: of a leaf's number.
        texts: texts are made, and no hashes.
        leaves: whose rows are wanted, None for all; rows without a key always are.
    """

    rows: ComparedRows
    asked: bytes
    bits: int
    texts: bool = False
    leaves: frozenset[int] | None = None

    def schema(self, own: Sequence[Any]) -> Any:
        """Arrow's, of what `made` gives; `own`: fields that batches have beside a table's."""
        import pyarrow.lib as pa

        from include.lake.tables.work import arrow_schema

        ends = (
            [(KEY_TEXT, pa.string()), (ROW_TEXT, pa.string())]
            if self.texts
            else [(HIGH, pa.int64()), (LOW, pa.int64())]
        )
        named = [pa.field(name, kind) for name, kind in ((LEAF, pa.int64()), *ends)]
        return pa.schema(
            [pa.field(KEY, pa.binary()), pa.field(VERSION, pa.int64()), *own, *arrow_schema(self.asked), *named]
        )

    def made(self, own: Collection[str], batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of `schema`; `own`: names of those fields."""
        import numpy as np
        import pyarrow.lib as pa

        from include.lake.tables.work import arrow_schema
        from include.source.hashes.arrow_texts import ArrowTexts, crcs

        asked, maker = arrow_schema(self.asked), ArrowTexts(self.rows)
        for batch in batches:
            rows, keys = batch, maker.keys(batch)
            leaf = crcs(keys) >> (LEAF_BITS - self.bits)
            if self.leaves is not None:
                # Nobody knows the leaf of a record that cannot be read.
                wanted = np.isin(leaf, list(self.leaves)) | rows.column(KEY).is_null().to_numpy(zero_copy_only=False)
                rows, keys, leaf = rows.filter(pa.array(wanted)), keys.filter(pa.array(wanted)), leaf[wanted]
            if not rows.num_rows:
                continue
            ends = (
                [keys.cast(pa.string()), maker.rows(rows).cast(pa.string())]
                if self.texts
                else [pa.array(each) for each in maker.hashes(rows)]
            )
            first = [rows.column(name) for name in (KEY, VERSION, *own)]
            middle = [_column(rows, each) for each in asked]
            schema = self.schema([rows.schema.field(name) for name in own])
            yield pa.RecordBatch.from_arrays([*first, *middle, pa.array(leaf), *ends], schema=schema)


def _column(batch: Any, field: Any) -> Any:
    import pyarrow.lib as pa

    if field.name in batch.schema.names:
        return batch.column(field.name).cast(field.type)
    return pa.nulls(batch.num_rows, field.type)
