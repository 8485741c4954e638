"""The proof of the search audits on a real node, at any size: faults are planted while writes go on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import orjson
from typing_extensions import override

from include.audit.definition import SearchAuditSpec
from include.audit.search.audit import AuditMode
from include.audit.search.bounds import AuditBounds
from include.audit.search.report import SearchReport
from include.audit.search.scrub import StoredDocuments
from include.audit.search.views.elasticsearch.documents import ElasticsearchDocuments
from include.audit.search.views.elasticsearch.forget import forget_versions
from include.audit.search.views.elasticsearch.moment import ElasticsearchView, counting_client
from include.audit.search.views.elasticsearch.states import ElasticsearchStates
from include.audit.search.views.elasticsearch.topics import undeclared_topics
from include.audit.search.views.range_count import IndexView
from include.audit.search.views.state_view import IndexState, StateView
from include.clock import SystemClock
from include.index.server.elasticsearch import ElasticsearchIndex
from include.settings.connections import Elasticsearch
from tests.support.background import Background
from tests.support.search.audit_harness import AuditHarness

_AT_ONCE = 20_000
MODES: tuple[AuditMode, ...] = ("digest", "bisect")


class Written(Protocol):
    """`written` records so far, in how many `seconds`."""

    written: int
    seconds: float


class NodeAuditHarness(AuditHarness):
    """The index is on a real node."""

    def __init__(self, url: str, alias: str) -> None:
        server = Elasticsearch(url=url)
        self.real = ElasticsearchIndex(server, counting_client(server))
        super().__init__(self.real, alias, partitions=4)
        # A server forgets a delete by its own clock: who waits for that in no time has waited for nothing.
        self.clock = SystemClock()

    def lose(self, doc_id: str) -> None:
        self.real.client.delete(index=self.name, id=doc_id)

    def close(self) -> None:
        self.real.client.indices.delete(index=self.name, ignore_unavailable=True)
        self.real.close()

    def fill(self, orders: int) -> None:
        """Orders 1 to `orders`, in the topic and in the index."""
        for start in range(1, orders + 1, _AT_ONCE):
            self.topic.write([(n, {"state": "completed"}) for n in range(start, min(start + _AT_ONCE, orders + 1))])
            self.catch_up()
        self.index.refresh(self.name)

    def size_bytes(self) -> int:
        """What the index takes on disk."""
        # A node on a busy machine takes its time over this.
        client = self.real.client.options(request_timeout=120)
        client.indices.flush(index=self.name)
        # Segment by segment: statistics of the store are up to ten seconds old.
        shards = client.indices.segments(index=self.name).body["indices"][self.name]["shards"]
        copies = [copy for shard in shards.values() for copy in shard if copy["routing"]["primary"]]
        return sum(segment["size_in_bytes"] for copy in copies for segment in copy["segments"].values())

    def load(self, orders: int, rate: int, spared: set[int]) -> AbstractContextManager[Written]:
        """So many writes a second while it is entered."""
        return Load(self, orders, rate, spared)

    def make_stale(self, numbers: Sequence[int]) -> None:
        """Let the topic have a newer state of these orders than the index, while nobody else writes."""
        self.swallowed = {str(n) for n in numbers}
        self.topic.write([(n, {"state": "newer"}) for n in numbers])

    # The audit's sides

    def states(self, name: str, spec: SearchAuditSpec, bounds: AuditBounds) -> StateView:
        found = ElasticsearchStates(self.real, name, spec.topic, bounds)
        self.between()
        return found

    def documents(self, name: str, spec: SearchAuditSpec) -> StoredDocuments:
        return ElasticsearchDocuments(self.real, name, spec.topic, spec.entity)

    def undeclared(self, name: str, spec: SearchAuditSpec) -> dict[str, int]:
        return undeclared_topics(self.real, name, spec.index.topics)

    @contextmanager
    def forget(self, copies: Sequence[IndexState]) -> Iterator[None]:
        with forget_versions(self.real, self.name, str, copies):
            yield

    def ranges(self, name: str, spec: SearchAuditSpec, bounds: AuditBounds) -> IndexView:
        found = ElasticsearchView(self.real, name, spec.topic, bounds)
        self.between()
        return found


class Load(Background):
    """Writes `rate` documents a second in a thread: updates, new ones and deletes; never those of `spared`."""

    def __init__(self, world: Any, orders: int, rate: int, spared: set[int]) -> None:
        super().__init__()
        self.written, self.seconds = 0, 0.0
        self._world, self._orders, self._rate, self._spared = world, orders, rate, spared

    @override
    def work(self) -> None:
        start, number = time.monotonic(), 0
        while not self.over.wait(0.05):
            due = min(int((time.monotonic() - start) * self._rate) - self.written, 2_000)
            states: list[tuple[int, dict[str, Any] | None]] = []
            while len(states) < due:
                number += 1
                order = number * 7919 % (self._orders + self._orders // 50) + 1
                if order not in self._spared:
                    states.append((order, None if number % 50 == 0 else {"state": f"s{number}"}))
            if states:
                self._world.topic.write(states)
                self._world.catch_up()
                self.written, self.seconds = self.written + len(states), time.monotonic() - start


class Planted:
    """So many documents of each kind, spread over all orders."""

    def __init__(self, orders: int, each: int) -> None:
        step = orders // each
        self.lost = [n * step + 1 for n in range(each)]
        self.stale = [n * step + step // 4 for n in range(each)]
        self.altered = [n * step + step // 2 for n in range(each)]
        self.spared = {*self.lost, *self.stale, *self.altered}

    def lose(self, world: NodeAuditHarness) -> None:
        lines = [{"delete": {"_id": str(n)}} for n in self.lost]
        assert not world.real.client.bulk(index=world.name, operations=lines).body["errors"]

    def add(self, world: NodeAuditHarness) -> None:
        for n in self.lost:
            world.put(f"{n}x", n)

    def alter(self, world: NodeAuditHarness) -> None:
        """Half by an update, which raises the version, half by a write of the same version; digests stay."""
        half = len(self.altered) // 2
        for n in self.altered[:half]:
            world.real.client.update(index=world.name, id=str(n), doc={"order": {"state": "forged"}})
        for n in self.altered[half:]:
            found = world.real.get(world.name, str(n))
            assert found is not None
            action = {"index": {"_id": str(n), "version": found.version, "version_type": "external_gte"}}
            document = {**found.source, "order": {**found.source["order"], "state": "forged"}}
            world.write([orjson.dumps(action) + b"\n" + orjson.dumps(document) + b"\n"])


def ids(numbers: Sequence[int], suffix: str = "") -> list[str]:
    """As a report names them."""
    return sorted(f"{n}{suffix}" for n in numbers)


def prove(world: NodeAuditHarness, *, orders: int, each: int, rate: int, clean_runs: int, share: float) -> list[str]:
    """Plant, find, mend, under load; gives what to tell. Fails by assertion.

    A digest may move at most `share` of the index's bytes.
    """
    told = []

    def tell(what: str, report: SearchReport) -> None:
        scrub = report.scrub or {"requests": 0, "received_bytes": 0, "looked_at": 0}
        told.append(
            f"{what}: {report.requests} requests, {report.received_bytes / 1e6:.2f} MB; in flight {report.in_flight}; "
            f"one by one {report.one_by_one}; scrub {scrub['looked_at']} documents, {scrub['requests']} requests, "
            f"{scrub['received_bytes'] / 1e6:.2f} MB"
        )

    planted = Planted(orders, each)
    world.fill(orders)
    first = world.audit()
    assert first.clean, first
    assert first.expected == orders
    size = world.size_bytes()
    told.append(f"{orders} documents, {size / 1e6:.0f} MB")
    tell("quiet", first)
    with world.load(orders, rate, planted.spared) as load:
        runs = [world.audit(mode) for _ in range(clean_runs) for mode in MODES]
        assert not [run for run in runs if not run.clean]
        moved = sum(runs[-1].window.values()) - sum(runs[0].window.values())
        assert moved > 0
        told.append(f"{len(runs)} clean runs while {moved} records were indexed, the last of each mode:")
        for mode, run in zip(MODES, runs[-len(MODES) :], strict=True):
            tell(f"  {mode}", run)
        planted.lose(world)
        report = world.audit("bisect")
        tell("bisect, missing alone", report)
        assert sorted(report.missing) == ids(planted.lost)
        assert report.extra == ()
        assert report.requests <= 25
    told.append(f"{load.written} documents written meanwhile, {load.written / load.seconds:,.0f} a second")
    world.make_stale(planted.stale)
    planted.add(world)
    planted.alter(world)
    world.catch_up()
    with world.load(orders, rate, planted.spared) as load:
        report = world.audit()
        tell("digest, every kind", report)
        assert sorted(report.missing) == ids(planted.lost)
        assert sorted(report.extra) == ids(planted.lost, "x")
        assert sorted(report.stale) == ids(planted.stale)
        assert sorted(report.altered) == ids(planted.altered)
        assert report.scrub is not None
        assert sorted(report.scrub["altered"]) == ids(planted.altered)
        # One more than for missing ones alone: who holds the states that are there too much.
        assert report.requests <= 6
        assert report.received_bytes < size * share
        blind = world.audit("bisect")
        tell("bisect, extras beside", blind)
        assert {*blind.missing} <= {*ids(planted.lost)}
        assert {*blind.extra} <= {*ids(planted.lost, "x")}
        told.append(f"  {len(blind.missing)} of the missing and {len(blind.extra)} of the extra found")
        world.swallowed = set()
        report = world.repair()
        tell("after the repair", report)
        assert report.clean, report
        assert report.repaired is not None
        assert report.repaired["left"] == {}
        assert world.audit().clean
    told.append(f"{load.written} documents written meanwhile, {load.written / load.seconds:,.0f} a second")
    world.catch_up()
    last = world.audit()
    tell("quiet again", last)
    assert last.clean, last
    assert (last.behind, last.in_flight) == (0, 0)
    return told
