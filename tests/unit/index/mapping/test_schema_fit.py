"""What `lyrebird index check` foresees of the topics of an index."""

from __future__ import annotations

from typing import Any

from include.index.definition import IndexDefinition
from include.index.mapping.schema_fit import topic_fits
from include.index.mapping.starter import starter_index
from include.index.mapping.value_types import Leaf, RecordType
from include.log.memory import MemoryRegistry

LIVE = starter_index({"a": RecordType({"n": Leaf("int", "int")}), "b": RecordType({"n": Leaf("int", "int")})}).mapping()
DEFINITION = IndexDefinition.model_validate(
    {
        "application": "index",
        "mapping": "m.yaml",
        "topics": {"as": {"entity": "a"}, "bs": {"entity": "b"}},
    }
)


def schema(fields: int) -> dict[str, Any]:
    return {"type": "record", "name": "V", "fields": [{"name": f"f{n}", "type": "int"} for n in range(fields)]}


def stops(*fields: int) -> list[tuple[str, ...]]:
    registry = MemoryRegistry()
    for topic, count in zip(DEFINITION.topics, fields, strict=True):
        registry.register(f"{topic}-value", schema(count))
    return [fit.stops for fit in topic_fits(registry, DEFINITION, LIVE, LIVE)]


def test_fields_of_the_newest_schema_that_pass_the_limit_are_foreseen_with_the_metadata_counted() -> None:
    assert stops(900, 10) == [(), ()]
    (over, _) = stops(1000, 0)
    assert len(over) == 1
    assert over[0].startswith("a: with the fields of the newest schema the mapping has 1,0")
    assert over[0].endswith("fields, at most 1,000")


def test_topics_that_pass_the_limit_together_are_foreseen() -> None:
    first, second = stops(600, 600)
    assert first == ()
    assert "fields, at most 1,000" in second[0]
