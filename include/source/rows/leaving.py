"""What leaves of a table's rows under the filter policy."""

from __future__ import annotations

from include.errors import Terminal
from include.record.schema import DATES, Column, TableSchema
from include.source.policy.masks import Mask, masked_column
from include.source.policy.policy import TablePolicy
from include.source.rows.render import masked, masked_text
from include.source.rows.shape import TableShape

__all__ = ["shape_of"]


def shape_of(
    name: tuple[str, str],
    columns: tuple[Column, ...],
    key: tuple[str, ...],
    nullable: frozenset[str],
    unlogged: frozenset[str],
    policy: TablePolicy,
    by: tuple[str, ...] = (),
) -> TableShape:
    """What leaves of a table, without its columns that are `unlogged`.

    Raises `Terminal` for a column of a type that is not read, or a key that may not leave. Without a key all columns
    that leave are the key, as they are: null where they may be null.
    """
    masks: dict[str, Mask] = {}
    leaving = []
    for column in columns:
        if policy.ignores(column.name) or column.name in unlogged:
            continue
        mask = policy.mask(column.name)
        if mask is not None:
            masks[column.name] = mask
        leaving.append(column if mask is None else masked_column(column, mask))
    for column in leaving:
        try:
            column.avro()
        except Terminal as refused:
            raise Terminal(refused.message, fix=refused.fix, table=".".join(name), **refused.details) from None
    chosen = key or tuple(column.name for column in leaving if column.name not in masks)
    gone = [column for column in (*key, *by) if column in masks or column not in {each.name for each in leaving}]
    if gone or not chosen:
        raise Terminal(
            "a column of the key, or one that chooses the partition, is missing, ignored or masked",
            table=".".join(name),
            columns=gone,
            fix="Let it pass in `filter`, correct `partition_by`, or drop the table there.",
        )
    schema = TableSchema(*name, tuple(leaving), chosen, frozenset() if key else nullable & set(chosen))
    plain = {column.name: column for column in columns}
    makers = {each: masked(plain[each], mask) for each, mask in masks.items()}
    dates = {each: masked_text(mask) for each, mask in masks.items() if plain[each].type in DATES}
    return TableShape(columns, schema, by, makers, dates)
