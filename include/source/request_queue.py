"""Requests to capture: read from `cdc.<source>.requests`, each id taken up once, answered in `cdc.<source>.answers`.

Which ids were dealt with stands in the answers, which are written in the same Kafka transactions as the work itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from include.clock import Clock
from include.errors import InvalidRecord, SettingsError, Terminal
from include.log.ports import Record
from include.log.requests.records import Answer, Request
from include.source.ports import CaptureLog
from include.source.snapshot.condition import Condition
from include.source.snapshot.plan import full_names
from include.source.snapshot.wanted_keys import MOST_KEYS
from include.source.state.capture_state import CaptureState
from include.source.state.job import Job

__all__ = ["ColumnOf", "ReadRequests", "RequestQueue"]


ColumnOf = Callable[[str], Callable[[str], str]]
"""Table → its columns' names as `Condition.bound` looks them up."""


@dataclass(frozen=True, slots=True)
class ReadRequests:
    """What reading the requests came to: the state with new jobs, and what to answer."""

    state: CaptureState
    answers: tuple[Answer, ...]


class RequestQueue:
    """Takes up requests; made of an open log, as it reads once which ids are done."""

    def __init__(self, log: CaptureLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._closed = log.closed_requests()

    def take(self, state: CaptureState, tables: Mapping[str, int], column: ColumnOf) -> ReadRequests | None:
        """New requests since `state.requests_next`, None without any. `tables`: those that can be asked for."""
        records, end = self._log.requests(state.requests_next)
        if end <= state.requests_next:
            return None
        answers: list[Answer] = []
        for record in records:
            answer, job = self._judge(record, tables, state, column)
            if answer is not None:
                answers.append(answer)
            if job is not None:
                state = replace(state, jobs=(*state.jobs, job))
                if job.gap:
                    state = state.without_aside(job.tables)
        return ReadRequests(replace(state, requests_next=end), tuple(answers))

    def closed(self, id_: str) -> bool:
        """Whether that request was dealt with."""
        return id_ in self._closed

    def close(self, id_: str) -> None:
        """The request is done: its id is not taken up again."""
        self._closed.add(id_)

    def _judge(
        self, record: Record, tables: Mapping[str, int], state: CaptureState, column: ColumnOf
    ) -> tuple[Answer | None, Job | None]:
        if record.value is None:
            return None, None
        try:
            request = Request.parse(record.value)
        except InvalidRecord as error:
            id_ = (record.key or b"").decode("utf-8", "replace")
            return self._refuse(id_, f"not a request: {error.details.get('reason')} at offset {record.offset}"), None
        if request.id in self._closed or request.id in {job.id for job in state.jobs}:
            return None, None
        if unfit := _unfit(request):
            return self._refuse(request.id, unfit), None
        resumed = request.kind == "resume_table"
        # What a table set aside missed is known to nobody, nor what another policy made of rows that are in the log:
        # all are read over the gap, and a floor ends it. Single rows go into what the log has of the others.
        gap = request.kind != "snapshot" and not request.keys
        wanted, unknown = full_names(request.tables, {**state.aside, **state.orphans} if resumed else tables)
        if unknown:
            what = "tables set aside or in want of rows" if resumed else "captured tables"
            return self._refuse(request.id, f"no {what}: {', '.join(unknown)}"), None
        if not wanted:
            return self._refuse(request.id, "no table is set aside or in want of rows"), None
        if request.where and gap:
            return self._refuse(request.id, "a table is read whole over a gap: no condition"), None
        try:
            condition = Condition.parse(request.where)
            if condition.text:
                for table in wanted:
                    condition.bound(column(table))
        except SettingsError:
            raise
        except Terminal as error:
            return self._refuse(request.id, str(error)), None
        job = Job(
            request.id,
            wanted,
            gap,
            asked=True,
            where=request.where,
            keys=request.keys,
            rows_per_s=request.rows_per_s,
        )
        return Answer(request.id, "accepted", self._clock.now_us()), job

    def _refuse(self, id_: str, note: str) -> Answer:
        self._closed.add(id_)
        return Answer(id_, "refused", self._clock.now_us(), note=note)


def _unfit(request: Request) -> str:
    """Why capture does not carry out such a request at all, "" where it does."""
    if request.kind not in ("snapshot", "resume_table", "reread"):
        return f"capture does not carry out requests of kind {request.kind}"
    if request.keys and request.kind != "reread":
        return f"capture does not carry out requests of kind {request.kind} for single keys"
    if request.keys and (len(request.tables) != 1 or len(request.keys) > MOST_KEYS or request.where):
        return f"single keys are read of one table, {MOST_KEYS:,} at once, without a condition"
    return ""
