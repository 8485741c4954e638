"""Answers to bulk requests, read quickly where all of it is the same good news, and requests that are bytes already.

Good news of thousands of items is one text over and over: one comparison tells it, where a parser makes three objects
of each item. Whatever reads otherwise, by a single byte, the parser reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from include.index.server.port import ItemAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["WRITTEN", "serializers", "written"]

WRITTEN: Final = {status: ItemAnswer(status) for status in (200, 201)}
"""What is said of a document that was written, over an older one or as a new one."""
_HEAD: Final = b'{"errors":false,"items":['
_NEW: Final = b'{"index":{"status":201}},'
_OVER: Final = b'{"index":{"status":200}},'
_TAIL: Final = b"]}"
_DIGIT: Final = len(_HEAD) + _NEW.index(b"}") - 1
_BY_DIGIT: Final = {ord("0"): WRITTEN[200], ord("1"): WRITTEN[201]}


def written(answer: bytes) -> list[ItemAnswer] | None:
    """The items of an answer that says of each that it was written, in the form that we ask for; None for any other."""
    count, rest = divmod(len(answer) - len(_HEAD) - len(_TAIL) + 1, len(_NEW))
    if rest or count < 1 or not answer.startswith(_HEAD):
        return None
    if answer.replace(_OVER[:-1], _NEW[:-1]) != _HEAD + (_NEW * count)[:-1] + _TAIL:
        return None
    return [_BY_DIGIT[each] for each in answer[_DIGIT :: len(_NEW)]]


def serializers() -> Mapping[str, Any]:
    """The client's readers and writers, by media type; `items` of an answer may be a list of `ItemAnswer`."""
    from elasticsearch.serializer import NdjsonSerializer, OrjsonSerializer

    class Json(OrjsonSerializer):
        # The standard library's reader takes three times as long, and this one none for good news.
        def json_loads(self, data: bytes) -> Any:
            found = written(data)
            return super().json_loads(data) if found is None else {"errors": False, "items": found}

    class Ndjson(NdjsonSerializer):
        # The client's own copies ready bytes twice.
        def dumps(self, data: Any) -> bytes:
            return data if isinstance(data, bytes) and data.endswith(b"\n") else super().dumps(data)

    return {each.mimetype: each for each in (Json(), Ndjson())}
