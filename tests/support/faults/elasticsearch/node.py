"""The node behind a faulty server: what is written of a bulk request, and which bytes answer it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from include.clock import ManualClock
from include.index.server.memory import MemoryIndex
from include.index.server.port import BulkAnswer, ItemAnswer
from tests.support.faults.elasticsearch.fate import Fate, Manner, Written

__all__ = ["FaultyNode", "Reply", "Seen", "in_memory"]

Seen = Callable[[bytes, Sequence[ItemAnswer] | None], None]
"""Hears of each request, and of the items' answers when the client is sure to get them."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a client is sent, and in which manner it arrives."""

    status: int
    body: bytes
    manner: Manner = "answer"
    retry_after_s: int | None = None


class FaultyNode:
    """Indexes in `index`, whose bulk requests meet their fate. Safe for several threads."""

    def __init__(self, index: MemoryIndex, fate: Callable[[int], Fate], seen: Seen | None = None) -> None:
        self.index = index
        self._fate = fate
        self.requests = 0
        self._seen = seen
        self._late: list[tuple[int, str, bytes]] = []
        self._lock = threading.Lock()

    def bulk(self, name: str, lines: bytes) -> Reply:
        """The reply to one bulk request."""
        with self._lock:
            self.requests += 1
            self._come_late()
            pairs = _pairs(lines)
            fate = self._fate(len(pairs))
            if fate.most_bytes and len(lines) > fate.most_bytes:
                fate = Fate(status=413, written="no")
            reply, answers = self._meet(name, lines, pairs, fate)
            if self._seen is not None:
                self._seen(lines, answers if fate.manner == "answer" and not fate.status else None)
            return reply

    def settle(self) -> None:
        """What is late comes now."""
        with self._lock:
            self._come_late(all_=True)

    def _meet(self, name: str, lines: bytes, pairs: list[bytes], fate: Fate) -> tuple[Reply, list[ItemAnswer]]:
        if fate.status or fate.manner in ("reset", "reset before", "silent"):
            self._write(name, pairs, fate.written, fate.share)
            error = {"error": {"type": fate.type, "reason": "so it happened"}, "status": fate.status}
            return Reply(fate.status, json.dumps(error).encode(), fate.manner, fate.retry_after_s), []
        if fate.manner == "short":
            # The last item never reached whoever answers.
            pairs = pairs[:-1]
            lines = b"".join(pairs)
        if not fate.items or any(_spoils(pair) for pair in pairs):
            answer = self.index.bulk(name, _versioned(self.index, name, lines))
        else:
            answer = self._one_by_one(name, pairs, fate)
        if answer.items is None:
            error = {"error": {"type": answer.type, "reason": answer.reason}, "status": answer.status}
            return Reply(answer.status, json.dumps(error).encode(), fate.manner), []
        items = list(answer.items)
        body = json.dumps({"errors": True, "items": [_item(each) for each in items]}).encode()
        if fate.manner == "garbage":
            body = b"<html>gateway</html>"
        return Reply(200, body, fate.manner, fate.retry_after_s), items

    def _one_by_one(self, name: str, pairs: list[bytes], fate: Fate) -> BulkAnswer:
        answers = []
        for place, pair in enumerate(pairs):
            its = fate.items.get(place)
            if its is None:
                true = self.index.bulk(name, _versioned(self.index, name, pair))
                answers += list(true.items or ())
                continue
            self._write(name, [pair], its.written, 1.0)
            answers.append(ItemAnswer(its.status, its.type, "so it happened"))
        return BulkAnswer(200, answers)

    def _write(self, name: str, pairs: list[bytes], written: Written, share: float) -> None:
        draw = Random(self.requests)
        for pair in pairs:
            if written == "no" or draw.random() > share or _spoils(pair):
                continue
            if written == "late":
                self._late.append((self.requests + draw.randint(1, 3), name, pair))
            else:
                self.index.bulk(name, _versioned(self.index, name, pair))

    def _come_late(self, *, all_: bool = False) -> None:
        for due in [each for each in self._late if all_ or each[0] <= self.requests]:
            self._late.remove(due)
            self.index.bulk(due[1], _versioned(self.index, due[1], due[2]))


def in_memory(node: FaultyNode, name: str, clock: ManualClock) -> Callable[[bytes], BulkAnswer]:
    """The `send` of a delivery, without sockets: what the adapter makes of the node's replies."""

    def send(lines: bytes) -> BulkAnswer:
        reply = node.bulk(name, lines)
        if reply.manner == "silent":
            clock.advance(30)
            return BulkAnswer(0, type="ConnectionTimeout")
        if reply.manner in ("reset", "reset before", "cut"):
            return BulkAnswer(0, type="ConnectionError")
        body = reply.body[: len(reply.body) // 2] if reply.manner == "cut length" else reply.body
        try:
            found: Any = json.loads(body)
        except ValueError:
            return BulkAnswer(0, type="SerializationError")
        if reply.status != 200:
            error = found["error"]
            return BulkAnswer(
                reply.status, type=error["type"], reason=error["reason"], retry_after_s=reply.retry_after_s
            )
        items = []
        for item in found["items"]:
            (answer,) = item.values()
            error = answer.get("error") or {}
            items.append(ItemAnswer(answer["status"], error.get("type", ""), error.get("reason", "")))
        return BulkAnswer(200, items)

    return send


def _pairs(lines: bytes) -> list[bytes]:
    rows = lines.split(b"\n")[:-1]
    return [b"%s\n%s\n" % (rows[i], rows[i + 1]) for i in range(0, len(rows), 2)]


def _spoils(pair: bytes) -> bool:
    """Whether this item alone makes the whole request invalid."""
    action = json.loads(pair.split(b"\n", 1)[0])["index"]
    return not 1 <= len(action["_id"].encode()) <= 512


def _versioned(index: MemoryIndex, name: str, lines: bytes) -> bytes:
    """As a server takes writes without versions: each is newer than what is there."""
    if b'"version":' in lines.split(b"\n", 1)[0]:
        return lines
    out = []
    for pair in _pairs(lines):
        action, body = pair.split(b"\n", 1)
        of = json.loads(action)
        there = index.get(name, of["index"]["_id"])
        of["index"] |= {"version": there.version + 1 if there else 1, "version_type": "external"}
        out.append(json.dumps(of).encode() + b"\n" + body)
    return b"".join(out)


def _item(answer: ItemAnswer) -> dict[str, Any]:
    told: dict[str, Any] = {"status": answer.status}
    if answer.type:
        told["error"] = {"type": answer.type, "reason": answer.reason}
    return {"index": told}
