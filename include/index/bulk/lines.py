"""Records straight to lines of bulk requests, for topics whose ids and versions need no more than the record itself.

What the compiled writer does not take, a record or a whole topic, goes the way of `states`, `metadata` and `bulk`: both
give the same bytes. So does whatever is wrong with a record: only that way says what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import orjson

from include.errors import InvalidRecord
from include.index.digest import VIEWS
from include.index.metadata import Metadata
from include.log.ports import SchemaRegistry
from include.record.codec import Decoder
from include.record.json.native import WHY_NOT, body_program, change_program, key_program

if TYPE_CHECKING:
    from include.index.feed import Feed
    from include.record.json.native._avro_json import Lines

__all__ = ["line_maker"]

_HEAD: Final = 5


def line_maker(feed: Feed, registry: SchemaRegistry) -> Lines | None:
    """What makes lines of that feed's records; None where nothing is compiled, or the feed needs the other way.

    The maker raises what the registry raises, but for schemas that nobody knows. A change without a newer image, a
    version below a floor or of another epoch are the caller's to judge.
    """
    topic = feed.topic
    if WHY_NOT or feed.versions != "header" or feed.shared or topic.key != "schema" or topic.routing is not None:
        return None
    from include.record.json.native._avro_json import Lines

    decode = Decoder(registry.schema)
    return Lines(
        _programs(registry, decode, key_program),
        _programs(registry, decode, change_program if topic.value == "change" else body_program),
        orjson.dumps(topic.entity),
        Metadata(feed.origin).shared,
        VIEWS,
    )


def _programs(registry: SchemaRegistry, decode: Decoder, made: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    """Programs by the head of a key or value in the wire format, each made once."""
    known: dict[bytes, Any] = {}

    def of(wire: bytes) -> Any:
        head = wire[:_HEAD]
        if head not in known:
            if len(head) < _HEAD or head[0]:
                return None
            schema_id = int.from_bytes(head[1:], "big")
            try:
                known[head] = made(decode.schema(schema_id)) if registry.language(schema_id) == "AVRO" else None
            except InvalidRecord:
                return None
        return known[head]

    return of
