"""Tells, by what a topic's writer has left in the log, whether it has begun, and what of it is gone.

Before the writer's first batch there is nothing to judge. What it says that it has written, or has written beside its
topic, was there: where the topic lacks that, it is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from include.clock import Clock
from include.errors import NothingToJudge, Terminal
from include.log import topics
from include.log.ports import LogReader, TopicAdmin
from include.log.publishing.last_mark import newest_of

__all__ = ["Traces", "await_begun", "require_begun", "traces_of"]

_SETTLES_S: Final = 20.0
_AGAIN_S: Final = 2.0


@dataclass(frozen=True)
class Traces:
    """What there is of a topic and of its writer.

    Args:
        held: partition → next offset of the topic; None: the topic does not exist.
        spoken: partition → next offset of what its writer said last that it had written; None: it has said nothing.
        resolved: the topic exists in which it would say so.
        beside: a topic that the writer fills in the same transactions has records.
    """

    held: Mapping[int, int] | None = None
    spoken: Mapping[int, int] | None = None
    resolved: bool = False
    beside: bool = False


def traces_of(topic: str, reader: LogReader, admin: TopicAdmin, beside: str = "") -> Traces:
    """Reads them; `beside`: a further topic of the writer, "" without one. Raises `Transient` as the log does."""
    resolved = topics.resolved_of(topic)
    # What is said is read first, before it is seen what exists: so nothing that it speaks of is missing by haste.
    said = newest_of(reader, resolved)[2] if admin.describe(resolved) is not None else None
    there = admin.describe_all([name for name in (topic, resolved, beside) if name])
    spoken = None if said is None else {p: end for (name, p), end in said.ends.items() if name == topic}
    return Traces(
        reader.end_offsets(topic) if topic in there else None,
        spoken,
        resolved in there,
        beside in there and any(reader.end_offsets(beside).values()),
    )


def await_begun(
    topic: str, reader: LogReader, admin: TopicAdmin, clock: Clock, *, beside: str = "", start: str, mend: str
) -> None:
    """As `require_begun` of `traces_of`; what is gone is lost only when it stays gone for some seconds.

    Capture deletes a topic, makes it anew and only then says so (`lyrebird capture resume-table`).

    Args:
        topic: its name.
        reader: reads what the topic holds, and what its writer has said of it.
        admin: tells which topics are there.
        clock: measures those seconds, and waits between two looks.
        beside: a further topic of the writer, "" without one.
        start: what to do where nothing is there yet.
        mend: what to do where something is gone.

    Raises:
        NothingToJudge: the writer has not begun, or has written nothing and said nothing yet.
        Terminal: what was there is gone, and stays gone.
        Transient: the log does not answer.
    """
    until_s = clock.monotonic_s() + _SETTLES_S
    while True:
        try:
            require_begun(topic, traces_of(topic, reader, admin, beside), start=start, mend=mend)
        except NothingToJudge:
            raise
        except Terminal:
            if clock.monotonic_s() >= until_s:
                raise
        else:
            return
        clock.sleep(_AGAIN_S)


def require_begun(topic: str, traces: Traces, *, start: str, mend: str) -> None:
    """Returns where the topic can be judged, and where its writer has written and has yet to say so.

    Args:
        topic: its name, for the error.
        traces: of it.
        start: what to do where nothing is there yet.
        mend: what to do where something is gone.

    Raises:
        NothingToJudge: the writer has not begun, or has written nothing and said nothing yet.
        Terminal: what was there is gone.
    """
    holds = any((traces.held or {}).values())
    written = any((traces.spoken or {}).values())
    if written and not holds:
        was = "does not exist any more" if traces.held is None else "was made anew and is empty"
        raise Terminal(f"the topic {was}, though its writer says what it has written", topic=topic, fix=mend)
    if traces.held is None and traces.beside:
        raise Terminal("the topic does not exist any more, though its writer's state does", topic=topic, fix=mend)
    if traces.spoken is None and not traces.resolved and (holds or traces.beside):
        raise Terminal(
            "what the topic is complete to is not told any more, though its writer has begun",
            topic=topic,
            resolved=topics.resolved_of(topic),
            fix=mend,
        )
    if traces.held is None:
        raise NothingToJudge("there is no such topic yet", topic=topic, fix=start)
    if traces.spoken is None and not (holds or traces.beside):
        raise NothingToJudge("nothing was written to the topic yet", topic=topic, fix=start)
