"""What a table's bytes look like, where its maps tell no labels."""

from __future__ import annotations

import pytest

from include.errors import Terminal
from include.record.schema import Column, TableSchema
from include.source.binlog.table_map import TableMap
from include.source.rows.images import RowImages
from include.source.rows.layout import layout
from include.source.rows.shape import TableShape

ID, FACE = Column("id", "int"), Column("face", "enum", charset="utf8mb4", labels=("?", "b"))
MAP = TableMap(1, "shop", "t", bytes((3, 254)), (0, 247 << 8 | 1), (False, True))


def shape(*leaving: Column) -> TableShape:
    return TableShape((ID, FACE), TableSchema("shop", "t", leaving, ("id",)))


def test_a_label_that_may_be_another_is_not_copied() -> None:
    with pytest.raises(Terminal, match="characters of four bytes") as refused:
        layout(MAP, shape(ID, FACE), "mysql")
    assert refused.value.details["column"] == "face"


def test_a_column_with_such_a_label_hinders_nobody_where_it_is_ignored() -> None:
    images = RowImages(layout(MAP, shape(ID), "mysql"))
    body = b"\x02\xff\xfc\x07\x00\x00\x00\x01"
    ((before, after),) = images.rows("c", body)
    assert before is None
    assert after is not None
