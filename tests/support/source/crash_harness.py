"""Capture's sessions on the log in memory and a made-up server, cut off at any numbered step, and begun again.

What a reader of committed records finds in the end is judged by the story that the server told.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from pydantic import SecretStr

from include.clock import ManualClock
from include.errors import Transient
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import LogWriter, Record
from include.log.requests.records import Answer, Request, RequestKind
from include.log.resolved import ResolvedView
from include.log.topics import change, control, source_answers, source_requests, source_resolved
from include.record.codec import Decoder
from include.record.position import SourcePosition
from include.record.version import from_headers, number_of
from include.source.binlog.transaction import RowsEvent
from include.source.definition import SourceDefinition
from include.source.log.direct_log import DirectLog, ensure_topics, transactional_id
from include.source.log.ports import LogPorts
from include.source.ports import Group, SessionWatcher
from include.source.session import CaptureSession
from tests.support.source.simulated_server import How, Killed, SimulatedServer, Steps, Story, position

__all__ = ["CrashHarness", "crashed"]

TOPIC = change("s", "shop", "t")


class _Until(SessionWatcher):
    """Ends a session when all that the story and the requests ask for is in the log."""

    def __init__(self, last: SourcePosition, requests: int) -> None:
        self._last, self._requests, self._done = last, requests, False

    def stop_requested(self) -> bool:
        return self._done

    def on_commit(self, group: Group, *, caught_up: bool) -> None:
        state = group.state
        asked = state.requests_next >= self._requests and not state.jobs
        self._done = asked and state.snapshot == "done" and group.position.covers(self._last)


class _Forgetful:
    """A writer whose last transaction's end some partitions may not hear of."""

    def __init__(self, inner: LogWriter, before_end: Callable[[], None]) -> None:
        self._inner, self._before_end = inner, before_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self) -> None:
        self._before_end()
        self._inner.commit()

    def close(self) -> None:
        self._before_end()
        self._inner.close()


class CrashHarness:
    """One story, one log, sessions one after another; `requests` are asked for before the first."""

    def __init__(self, seed: int, **more: Any) -> None:
        chance = random.Random(seed)
        self.story, self.steps = Story(seed), Steps()
        self.log, self.registry, self.clock = MemoryLog(), MemoryRegistry(), ManualClock()
        self._upstream = SimulatedServer(self.story, self.steps, chance)
        values = {"partitions": 3, "group_bytes": 900, "snapshot_workers": 1, "snapshot_chunk_rows": 100} | more
        self.source = SourceDefinition(
            host="db", port=1, user="u", password=SecretStr("p"), databases=["shop"], **values
        )
        ensure_topics("s", self.log.admin())
        # The end of each transaction takes an offset, too.
        self._asked = 0
        self._ask(("r1", "snapshot"), ("r2", "resume_table"), ("r1", "snapshot"), ("r3", "snapshot"))
        self.crashes = self.finished = 0
        self._chance = random.Random(seed)

    def _ask(self, *requests: tuple[str, RequestKind]) -> None:
        asker = self.log.writer("asker")
        asker.begin()
        for id_, kind in requests:
            request = Request(id_, kind, "test", 1, ("t",))
            asker.append(source_requests("s"), request.key(), request.value())
        asker.commit()
        self._asked += len(requests) + 1

    def session(self, at: int = 0, how: How = "kill", until: int | None = None) -> bool:
        """One session up to transaction `until`, which step `at` ends; True when it came to its end."""
        self.steps.arm(at, how)
        if self.crashes:
            # Whoever asked has not heard yet.
            self._ask(("r1", "snapshot"))
        if until is not None:
            self._upstream.until = until
        last = position(self._upstream.until)
        session: CaptureSession | None = None
        log = DirectLog("s", self._ports(), self.clock)
        try:
            session = CaptureSession("s", self.source, log, self._upstream, self.clock, _Until(last, self._asked))  # type: ignore[arg-type]
            if not session.begun:
                session.begin()
            session.stream()
        except (Killed, Transient):
            assert self.steps.dead
            self.crashes += 1
            return False
        finally:
            # Of a process that was killed this ends the threads alone.
            (log if session is None else session).close()
        return True

    def _ports(self) -> LogPorts:
        steps, id_ = self.steps, transactional_id("s")

        def writer() -> LogWriter:
            steps.step("before open")
            # What the one before left open is aborted now, and not all of its partitions may hear of it.
            self.log.forget(*self._forgotten(self.crashes > 0))
            opened = self.log.writer(id_)
            self.log.forget()
            steps.step("after open")
            found: LogWriter = steps.around(_Forgetful(opened, self._forget_if_it_dies))
            return found

        def finish(places: Collection[tuple[str, int]], commit: bool) -> None:
            steps.step("before finish")
            self.finished += 1
            self.log.finish(id_, places, commit=commit)
            steps.step("after finish")

        return LogPorts(
            writer,
            steps.around(self.log.reader(), ("close", "read")),
            steps.around(self.log.admin()),
            steps.around(self.registry),
            finish,
        )

    def _forget_if_it_dies(self) -> None:
        """Where the session dies here, its broker may, too."""
        self.log.forget(*self._forgotten(self.steps.dead or self.steps.at == self.steps.count + 1))

    def _forgotten(self, may: bool) -> list[tuple[str, int]]:
        if not may or self._chance.random() < 0.3:
            return []
        reader = self.log.reader()
        names = [name for name in self.log.admin().names() if name != source_requests("s")]
        share = self._chance.choice((0.2, 0.5, 1.0))
        return [
            (name, partition)
            for name in names
            for partition in reader.end_offsets(name)
            if self._chance.random() < share
        ]

    def judge(self) -> None:
        """Fails unless the log is the story: see the names of what it calls."""
        self._versions_are_dense()
        self._each_change_is_there_once_and_in_order()
        self._each_resolved_record_says_the_truth()
        self._the_copy_is_the_table()
        self._each_request_is_answered_once()

    def copies(self, since: int = 0) -> list[tuple[int, bool, Any]]:
        """Of each resolved record from offset `since` on: transactions, whether it covers the table, the copy."""
        decode, view, found = Decoder(self.registry.schema), ResolvedView(), []
        rows = [(record, from_headers(record.headers)) for record in self._records(TOPIC)]
        floors = [
            (r.offset, raw["floor"]) for r, raw in zip(self._records(control("s")), self._controls(), strict=True)
        ]
        for record in self._records(source_resolved("s")):
            resolved, ends = view.on_record(record.value), view.ends()
            if resolved is None or ends is None or record.offset < since:
                continue
            floor = max((f for offset, f in floors if offset < ends.get((control("s"), 0), 0)), default=0)
            newest: dict[Any, Any] = {}
            for row, version in rows:
                if row.offset < ends.get((TOPIC, row.partition), 0):
                    newest[row.key] = version, row.value
            alive = [decode(value)["after"] for version, value in newest.values() if value and version >= floor]
            # A deleted row has none; its tombstone may lie behind the ends of a topic that is gone.
            copy = {row["id"]: (row["id"], row["part"], row["v"]) for row in alive if row}
            found.append((resolved.position.binlog.pos // 100, not resolved.uncovered, copy))
        return found

    def is_honest(self, since: int = 0) -> None:
        """Wherever a resolved record from offset `since` on says that it covers the table, the copy is the table."""
        for number, covered, copy in self.copies(since):
            assert not covered or copy == self.story.states[number], number
        number, covered, copy = self.copies(since)[-1]
        assert (number, covered, copy) == (24, True, self.story.states[-1])

    def _records(self, topic: str) -> list[Record]:
        reader = self.log.reader()
        return [
            record
            for partition, end in sorted(reader.end_offsets(topic).items())
            for record in reader.read(topic, partition, 0, end)
        ]

    def _envelopes(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        decode = Decoder(self.registry.schema)
        for record in self._records(TOPIC):
            if record.value is not None:
                yield record, decode(record.value)

    def _versions_are_dense(self) -> None:
        topics = (TOPIC, control("s"), source_resolved("s"), source_answers("s"))
        found = sorted({number_of(from_headers(r.headers)) for topic in topics for r in self._records(topic)})
        assert found == list(range(1, found[-1] + 1))

    def _each_change_is_there_once_and_in_order(self) -> None:
        places = defaultdict(list)
        for record, envelope in self._envelopes():
            if envelope["op"] != "r":
                number = int(envelope["source"]["gtid"].rpartition("-")[2])
                places[record.partition].append((number, envelope["source"]["row"], envelope["op"]))
        for found in places.values():
            assert [place[:2] for place in found] == sorted(place[:2] for place in found)
        each = Counter(place for found in places.values() for place in found)
        assert not [place for place, times in each.items() if times > 1]
        begin = self._resolved()[0][1]
        told = range(begin + 1, len(self.story.transactions) + 1)
        expected = {(number, row) for number in told for row in range(self._rows(number))}
        assert {(number, row) for number, row, _ in each} == expected

    def _rows(self, number: int) -> int:
        return sum(isinstance(step, RowsEvent) for step in self.story.transactions[number - 1].steps)

    def _resolved(self) -> list[tuple[Mapping[tuple[str, int], int], int]]:
        view, found = ResolvedView(), []
        for record in self._records(source_resolved("s")):
            resolved = view.on_record(record.value)
            if resolved is not None:
                ends = view.ends()
                assert ends is not None
                found.append((ends, resolved.position.binlog.pos // 100))
        return found

    def _each_resolved_record_says_the_truth(self) -> None:
        changes = [
            (record, int(envelope["source"]["gtid"].rpartition("-")[2]))
            for record, envelope in self._envelopes()
            if envelope["op"] != "r"
        ]
        before: Mapping[tuple[str, int], int] = {}
        for ends, number in self._resolved():
            assert all(ends[place] >= end for place, end in before.items())
            before = ends
            for record, of in changes:
                assert (record.offset < ends.get((TOPIC, record.partition), 0)) == (of <= number)

    def _the_copy_is_the_table(self) -> None:
        floor = max((raw["floor"] for raw in self._controls() if raw["kind"] != "schema"), default=0)
        newest: dict[bytes | None, tuple[int, Record]] = {}
        for record in self._records(TOPIC):
            version = from_headers(record.headers)
            assert version >= newest.get(record.key, (0, record))[0]
            newest[record.key] = version, record
        decode = Decoder(self.registry.schema)
        alive = [decode(r.value)["after"] for version, r in newest.values() if r.value and version >= floor]
        found = {row["id"]: (row["id"], row["part"], row["v"]) for row in alive}
        assert found == self.story.states[-1]

    def _controls(self) -> list[dict[str, Any]]:
        return [json.loads(record.value) for record in self._records(control("s")) if record.value]

    def _each_request_is_answered_once(self) -> None:
        ends = Counter[tuple[str, str]]()
        for record in self._records(source_answers("s")):
            assert record.value is not None
            answer = Answer.parse(record.value)
            if answer.state in ("done", "refused"):
                ends[answer.id, answer.state] += 1
        assert ends == {("r1", "done"): 1, ("r2", "refused"): 1, ("r3", "done"): 1}


def crashed(seed: int, at: Callable[[int], int], how: How, **more: Any) -> CrashHarness:
    """A world whose n-th session ends at step `at(n)` (0: at none), judged at its end."""
    world = CrashHarness(seed, **more)
    number = 0
    while not world.session(at(number), how):
        number += 1
    world.judge()
    return world
