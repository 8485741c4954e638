"""Applies the filter policy to a table: makes the shape of its rows that leave."""

from __future__ import annotations

from include.errors import Terminal
from include.policy.masks import Mask, masked_column
from include.policy.policy import TablePolicy
from include.record.schema import DATES, Column, TableSchema
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
    """Makes the shape of a table's rows that leave.

    Without a key all columns that leave as they are make the key: null where they may be null.

    Args:
        name: (database, table).
        columns: the server's, in their order.
        key: names of the key's columns, () without a key.
        nullable: names of the columns that may be null.
        unlogged: names of the columns whose values the binlog does not tell: they are left out.
        policy: of the table.
        by: names of the columns that choose the partition; (): the key does.

    Raises:
        Terminal: a column has a type that is not read; one of `key` or `by` does not leave as it is; or no key is left.
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
    gone = [column for column in (*key, *by) if column in masks or column not in {kept.name for kept in leaving}]
    if gone or not chosen:
        raise Terminal(
            "a column of the key, or one that chooses the partition, is missing, ignored or masked",
            table=".".join(name),
            columns=gone,
            fix="Let it pass in `filter`, correct `partition_by`, or drop the table there.",
        )
    schema = TableSchema(*name, tuple(leaving), chosen, frozenset() if key else nullable & set(chosen))
    plain = {column.name: column for column in columns}
    makers = {masked_name: masked(plain[masked_name], mask) for masked_name, mask in masks.items()}
    dates = {masked_name: masked_text(mask) for masked_name, mask in masks.items() if plain[masked_name].type in DATES}
    return TableShape(columns, schema, by, makers, dates)
