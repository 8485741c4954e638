"""Ends or stops its own process at a named step: a request to the store, a batch of the log, a commit of offsets.

A place is a moment, a verb and an object: `before put intent`, `within put data` (half of the body is on its way),
`after complete data`, `after batch`, `before offsets`. Nothing of the product knows of it: requests are met in the
client's own events, below retries, so an answer is always to one request.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from include.lake.reading.log_ranges import LogRanges, MessageBatch
from include.store.s3 import S3Store

__all__ = ["How", "Strike", "StruckLog", "StruckOffsets", "Switch"]

How = Literal["kill", "stop"]

_VERBS: Final = {
    "PutObject": "put",
    "GetObject": "get",
    "HeadObject": "head",
    "ListObjectsV2": "list",
    "CreateMultipartUpload": "create",
    "UploadPart": "part",
    "CompleteMultipartUpload": "complete",
}
_WITH_BODY: Final = ("PutObject", "UploadPart")
_SIGNALS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


@dataclass(frozen=True, slots=True)
class Strike:
    """At the `nth` time at `place`. `mark` is a file that tells that it came to it, once for all that share it."""

    place: str
    how: How
    mark: str
    nth: int = 1


class Switch:
    """Of one process; without a strike it does nothing."""

    def __init__(self, strike: Strike | None) -> None:
        self._strike, self._count = strike, 0
        self._lock = threading.Lock()
        self._watched: set[int] = set()

    def at(self, place: str) -> None:
        """The process is there."""
        strike = self._strike
        if strike is None or place != strike.place:
            return
        with self._lock:
            self._count += 1
            if self._count != strike.nth:
                return
            with contextlib.suppress(FileExistsError), Path(strike.mark).open("x", encoding="utf-8") as mark:
                mark.write(str(os.getpid()))
                mark.flush()
                os.kill(os.getpid(), _SIGNALS[strike.how])
                # The signal may meet another thread first; this one goes no further.
                time.sleep(0.1)

    def watch(self, store: S3Store) -> None:
        """Meet all its requests from now on."""
        if self._strike is None or id(store) in self._watched:
            return
        self._watched.add(id(store))
        for client in (store._once, store._patient):
            for operation in _VERBS:
                client.meta.events.register(f"before-parameter-build.s3.{operation}", self._begun)
                client.meta.events.register(f"after-call.s3.{operation}", self._ended)
            for operation in _WITH_BODY:
                client.meta.events.register(f"before-send.s3.{operation}", self._sending)

    def _begun(self, params: Any, model: Any, context: Any, **_more: Any) -> None:
        context["step"] = f"{_VERBS[model.name]} {_object(params.get('Key') or params.get('Prefix', ''))}"
        self.at(f"before {context['step']}")

    def _ended(self, context: Any, **_more: Any) -> None:
        self.at(f"after {context['step']}")

    def _sending(self, request: Any, event_name: str, **_more: Any) -> None:
        key = urllib.parse.unquote(urllib.parse.urlsplit(request.url).path).lstrip("/").partition("/")[2]
        place = f"within {_VERBS[event_name.rpartition('.')[2]]} {_object(key)}"
        if self._strike is not None and self._strike.place == place:
            body = request.body
            request.body = _Halves(body if isinstance(body, bytes) else body.read(), lambda: self.at(place))


class _Halves:
    """A body that is sent in two halves, with something done in between."""

    def __init__(self, body: bytes, between: Any) -> None:
        self._halves = [body[: len(body) // 2], body[len(body) // 2 :]]
        self._between = between

    def read(self, _size: int = -1) -> bytes:
        if len(self._halves) == 1:
            self._between()
        return self._halves.pop(0) if self._halves else b""


def _object(key: str) -> str:
    name = key.rpartition("/")[2]
    if "/_chain/" not in f"/{key}":
        return "data"
    if name == "current":
        return "pointer"
    if name.endswith((".intent", ".commit")):
        return name.rpartition(".")[2]
    if "/hint/" in key:
        return "hint"
    return "lives" if name.endswith("~") else "chain"


class StruckLog:
    """`LogRanges` with a place behind each batch."""

    def __init__(self, inner: LogRanges, switch: Switch) -> None:
        self._inner, self._switch = inner, switch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        for batch in self._inner.batches(topic, partition, start, end):
            yield batch
            self._switch.at("after batch")


class StruckOffsets:
    """Offsets of a consumer group with places around each commit."""

    def __init__(self, inner: Any, switch: Switch) -> None:
        self._inner, self._switch = inner, switch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, offsets: Any) -> None:
        self._switch.at("before offsets")
        self._inner.commit(offsets)
        self._switch.at("after offsets")
