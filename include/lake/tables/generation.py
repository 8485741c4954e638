"""Stores which generation of a table is written, and which is read, in one small object beside their folders.

    <prefix>/<topic>/_generations.json     {"serving": 1, "writing": 2}
    <prefix>/<topic>/g1/                   a Delta table
    <prefix>/<topic>/g2/

A table begins a new generation when its topic was made anew, and when somebody asks (`lyrebird table rebuild`). The one
before is read until the new one is complete to a resolved record for the first time; it stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

import orjson

from include.errors import Terminal, Transient
from include.store.object_store import ObjectStore

__all__ = ["Generations", "begin_generation", "generation_folder", "generations_of", "serve_generation"]

_FILE: Final = "_generations.json"
_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Generations:
    """Numbers of a table's generations; `serving` 0: none is complete yet."""

    serving: int
    writing: int

    @property
    def read(self) -> int:
        """The one to read: what serves, else the first, incomplete as it is."""
        return self.serving or self.writing


def generation_folder(prefix: str, topic: str, number: int) -> str:
    """Key of the folder of a generation, without a slash at its end."""
    return f"{prefix}/{topic}/g{number}"


def generations_of(store: ObjectStore, prefix: str, topic: str) -> Generations | None:
    """Those of a topic's table; None before its first."""
    found = _read(store, prefix, topic)
    return None if found is None else found[0]


def begin_generation(store: ObjectStore, prefix: str, topic: str, after: int) -> Generations:
    """Let the generation behind `after` be written (0: the first one), if `after` still is; what holds then.

    Raises `Transient` when others change it all the time.
    """
    return _change(
        store, prefix, topic, lambda now: Generations(now.serving, after + 1) if now.writing == after else now
    )


def serve_generation(store: ObjectStore, prefix: str, topic: str, number: int) -> Generations:
    """Let readers take generation `number`, unless a later one serves already."""
    return _change(store, prefix, topic, lambda now: Generations(max(now.serving, number), now.writing))


def _change(store: ObjectStore, prefix: str, topic: str, to: Callable[[Generations], Generations]) -> Generations:
    key = f"{prefix}/{topic}/{_FILE}"
    for _ in range(_TRIES):
        found = _read(store, prefix, topic)
        now, etag = found or (Generations(0, 0), None)
        wanted = to(now)
        if wanted == now and found is not None:
            return now
        body = orjson.dumps(asdict(wanted))
        done = store.put_if_absent(key, body) if etag is None else store.put_if_match(key, body, etag)
        if done is not None:
            return wanted
    raise Transient("others change the table's generations all the time", system="store", key=key)


def _read(store: ObjectStore, prefix: str, topic: str) -> tuple[Generations, str] | None:
    key = f"{prefix}/{topic}/{_FILE}"
    found = store.get(key)
    if found is None:
        return None
    try:
        return Generations(**orjson.loads(found.body)), found.info.etag
    except (ValueError, TypeError) as error:
        raise Terminal(
            "object that names a table's generations is damaged", key=key, fix="Put it back from an older version."
        ) from error
