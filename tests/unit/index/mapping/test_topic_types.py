from __future__ import annotations

import pytest

from include.errors import Terminal
from include.index.mapping.topic_types import body_form, is_envelope
from include.index.mapping.value_types import Leaf, MapOf, RecordType
from include.record.schema import Column, TableSchema
from tests.support.documents.topic import VALUE

TEXT = Leaf("text", "string")


def test_the_body_of_a_change_is_its_newer_image() -> None:
    table = TableSchema("shop", "t", (Column("id", "bigint"), Column("at", "datetime")), ("id",))
    envelope = table.envelope_avro("shop")
    assert body_form(envelope, "AVRO", "change") == RecordType(
        {
            "id": Leaf("long", "long"),
            "at": Leaf("timestamp_micros", "local-timestamp-micros"),
            "_invalid": MapOf(TEXT),
        }
    )
    assert is_envelope(envelope, "AVRO")
    assert not is_envelope(VALUE, "AVRO")
    with pytest.raises(Terminal, match="value: plain"):
        body_form(VALUE, "AVRO", "change")
