"""The indexer's delivery to a real node that is killed, and over connections that are cut and held.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_search_node.py
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from include.clock import SystemClock
from include.errors import Transient
from include.index.bulk.request import BulkLine
from include.index.bulk.scheduler import Concurrency
from include.index.bulk.sender import Delivery
from include.index.server import elasticsearch as adapter
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.port import BulkAnswer
from include.local.stack import Stack
from include.settings.connections import Elasticsearch
from tests.support.faults.tcp_proxy import TcpProxy
from tests.support.servers.addresses import elasticsearch_url, moved

if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_search_node.py", allow_module_level=True)

NAME = "orders-v1"
KEYS = 2_000
STATES = 30_000
BATCH = 3_000
KILLS = 3
MAPPING = {
    "dynamic": "strict",
    "properties": {
        "order": {
            "properties": {"v": {"type": "long"}, "pad": {"type": "keyword", "index": False, "doc_values": False}}
        },
        "metadata": {"properties": {"offset": {"type": "long"}, "deleted": {"type": "boolean"}}},
    },
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[Stack, str]]:
    stack = Stack(tmp_path / "stack", free_ports=True)
    try:
        yield stack, elasticsearch_url(stack.up(["elasticsearch"]))
    finally:
        stack.down()


class Watched:
    """`send`, which knows of each line whether its settlement was told, and notes those that are sent again then."""

    def __init__(self, index: ElasticsearchIndex) -> None:
        self.again = 0
        self.met: Counter[str] = Counter()
        self._index = index
        self._settled: set[bytes] = set()
        self._lock = threading.Lock()

    def __call__(self, lines: bytes) -> BulkAnswer:
        rows = lines.split(b"\n")[1::2]
        with self._lock:
            self.again += sum(row in self._settled for row in rows)
        answer = self._index.bulk(NAME, lines)
        with self._lock:
            self.met[f"{answer.status} {answer.type}".strip()] += 1
            for row, item in zip(rows, answer.items or (), strict=False):
                self.met[f"item {item.status} {item.type}".strip()] += 1
                if item.status in (200, 201, 409):
                    self._settled.add(row)
        return answer


class Trouble(threading.Thread):
    """Cuts and holds connections all the time, and kills the node now and then, until it is told to end."""

    def __init__(self, stack: Stack, proxy: TcpProxy, seed: int) -> None:
        super().__init__(daemon=True)
        self.kills = self.cuts = 0
        self._stack, self._proxy = stack, proxy
        self._draw = random.Random(seed)
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(self._draw.uniform(0.3, 1.5)):
            draw = self._draw.random()
            if draw < 0.15 and self.kills < KILLS:
                self._kill()
            elif draw < 0.7:
                self._proxy.reset()
                self.cuts += 1
            else:
                self._proxy.hold()
                self._ended.wait(self._draw.uniform(0.5, 3))
                self._proxy.release()

    def end(self) -> None:
        self._ended.set()
        self.join()
        self._proxy.release()

    def _kill(self) -> None:
        before = self._pid()
        if before is None:
            return
        os.kill(before, signal.SIGKILL)
        self.kills += 1
        # Its supervisor starts it again.
        while not self._ended.is_set() and self._pid() in (None, before):
            time.sleep(0.2)

    def _pid(self) -> int | None:
        return next((one.pid for one in self._stack.status().processes if one.process == "elasticsearch"), None)


def states(seed: int) -> tuple[list[BulkLine], dict[str, tuple[int, bool]]]:
    """Lines in any order of versions, and the newest state of each key: its version, and whether it is deleted."""
    draw, lines = random.Random(seed), []
    newest: dict[str, tuple[int, bool]] = {}
    for offset, version in enumerate(draw.sample(range(1, 10 * STATES), STATES)):
        key, deleted = f"k{draw.randrange(KEYS)}", draw.random() < 0.15
        metadata = {"offset": offset, "deleted": deleted}
        body: dict[str, Any] = {"order": {"v": version, "pad": "x" * draw.randrange(400)}}
        document = {"metadata": metadata} if deleted else body | {"metadata": metadata}
        action = {"index": {"_id": key, "version": version, "version_type": "external"}}
        lines.append(BulkLine(offset, f"{json.dumps(action)}\n{json.dumps(document)}\n".encode(), deleted))
        newest[key] = max(newest.get(key, (0, False)), (version, deleted))
    return lines, newest


def deliver(
    send: Watched, lines: Sequence[BulkLine], concurrency: Concurrency, pool: ThreadPoolExecutor
) -> Counter[str]:
    """Until each line is settled."""
    told: Counter[str] = Counter()
    waiting = list(lines)
    while waiting:
        delivery = Delivery(
            send, SystemClock(), index=NAME, bulk_bytes=200_000, patience_s=15, pool=pool, concurrency=concurrency
        )
        out = delivery.deliver(waiting)
        told.update(done=len(out.done), stale=len(out.stale), dead=len(out.dead), retries=out.retries)
        waiting = out.waiting
    return told


def eventually(index: ElasticsearchIndex, keys: list[str]) -> dict[str, tuple[int, bool]]:
    """What the index has of these keys, once its node answers."""
    while True:
        try:
            return {key: (found.version, found.deleted) for key, found in index.get_many(NAME, keys).items()}
        except Transient:
            time.sleep(0.5)


@pytest.mark.timeout(1200)
def test_a_node_that_is_killed_and_cut_off_ends_with_the_newest_state_of_each_key(
    node: tuple[Stack, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stack, url = node
    monkeypatch.setattr(adapter, "_BULK_S", 5.0)
    place = urlsplit(url)
    lines, newest = states(1)
    told: Counter[str] = Counter()
    with TcpProxy(place.hostname or "", place.port or 0) as proxy, ThreadPoolExecutor(4) as pool:
        index = ElasticsearchIndex(Elasticsearch(url=moved(url, proxy.host, proxy.port)))
        index.create(NAME, {"settings": {"number_of_replicas": 0}, "mappings": MAPPING})
        send, concurrency = Watched(index), Concurrency(4)
        trouble = Trouble(stack, proxy, 1)
        trouble.start()
        try:
            at = 0
            # Again from the beginning, as after a start from an old position, until the node was killed often enough.
            while at < len(lines) or trouble.kills < KILLS:
                told += deliver(send, lines[at % len(lines) :][:BATCH], concurrency, pool)
                at += BATCH
                if at == len(lines):
                    first, again = Counter(told), send.again
        finally:
            trouble.end()
        found = eventually(index, list(newest))
        index.close()
    print(
        f"{trouble.kills} kills, {trouble.cuts} cuts, first time {dict(first)}, in all {dict(told)}, {dict(send.met)}"
    )
    assert found == newest
    assert again == 0
    assert first["done"] + first["stale"] == len(lines)
    assert told["dead"] == 0
    assert first["retries"] > 0
