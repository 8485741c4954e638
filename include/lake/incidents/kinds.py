"""Incidents of the lake: their kinds, and the command to run next that an advice names."""

from __future__ import annotations

from typing import Final

from include.errors import Terminal
from include.incidents.kind import IncidentKind, advised
from include.lake.incidents.diagnosis import System

__all__ = [
    "FENCED",
    "HANGING",
    "LATE",
    "LOST",
    "LOST_CUTS",
    "MORE_LOST",
    "REFUSED",
    "STANDING",
    "STOPPED",
    "SYSTEMS",
    "LeftStanding",
    "next_command",
]

_PAGE: Final = "lake-operations.md#mails-and-what-to-do"
LOST: Final = IncidentKind("lost", "lake", "critical", _PAGE,
    opens="records went before they were stored; one for each range", ends="a week has passed",
    text="{name} has lost {lost}: {why}",
    fix="Raise the topic's retention; find out why the group was behind: "
        "`lyrebird lake status --group {name} --topic {topic}`.")  # fmt: skip
LOST_CUTS: Final = IncidentKind("lost", "lake", "critical", "lake-operations.md#lifecycle-rules-of-the-bucket",
    opens="a newer [revision](glossary.md#revision) begins before what was stored: commits were gone, or the log was "
          "truncated; one for each partition",
    ends="a week has passed",
    text="{name} has lost cuts with {lost}: {why}",
    fix="`lyrebird audit chain {topic}` names objects of them that are still there. What Kafka lacks of them is told "
        "as lost, too.")  # fmt: skip
MORE_LOST: Final = IncidentKind("lost", "lake", "critical", _PAGE,
    opens="more than twenty ranges of a group are lost: these together", ends="no more have been lost for a day",
    text="{name}: more ranges are lost, {count} since {since}, the last: {lost}", fix=LOST.fix)  # fmt: skip
REFUSED: Final = IncidentKind("quarantine", "lake", "error", "lake.md#records-that-are-set-aside",
    opens="the first record of a topic is refused by parser or format; again at ten times as many, and each day while "
          "more come",
    ends="none has come for a day",
    text="{name}: records of {topic} are set aside, {count} since {since}: the parser or the format refuses them",
    fix="`lyrebird lake cat {object}` shows the reason. Mend the parser by [another version](lake.md#versions), then "
        "[make the days again](lake-operations.md#make-days-again).")  # fmt: skip
LATE: Final = IncidentKind("late", "lake", "warning", _PAGE,
    opens="what waits is older than `max_age_s` and a minute; names the worst partition; streams only",
    ends="nothing has been late for a minute",
    text="{name} is late with {tp.topic}/{tp.partition}: offsets that wait: {waiting}, the oldest for {age_s} s "
         "where the policy allows {most_s}; late are {late} of {all} partitions.{cause}",
    fix="See whether the application runs (`lyrebird lake status --group {name}`), and its log.")  # fmt: skip
HANGING: Final = IncidentKind("hanging", "lake", "error", "lake-operations.md#see-whether-all-is-well",
    opens="a transaction has had no end for longer than `max_age_s`; names the worst partition",
    ends="none of them is open any more",
    text="{name} is shown nothing of {tp.topic}/{tp.partition} from offset {hidden.stable} on, as a transaction "
         "that begins there has no end: {waiting} offsets wait behind it, and retention takes them unread; so it is in "
         "{hanging} of {all} partitions. Unless its producer still writes, abort it.",
    fix="`kafka-transactions.sh --bootstrap-server … find-hanging --topic {tp.topic} --partition {tp.partition}`; "
        "abort it, unless its producer still writes: retention takes the records behind it.")  # fmt: skip
STANDING: Final = IncidentKind("standing", "lake", "error", "lake-operations.md#a-partition-that-stands-still",
    opens="a partition must not go on: its log was truncated, its chain is damaged, a parser's version is gone; one "
          "for each topic and cause",
    ends="its partitions have gone on",
    text="{name} stands still at {topic}, partitions {partitions}: {reason}. {then}",
    fix="Mend the cause (`lyrebird lake status --group {name} --topic {topic}`), then start the application again "
        "(clear its task). On a schedule the next run goes on.")  # fmt: skip
_SYSTEMS: Final[dict[System, str]] = {
    "store": "the object store", "log": "Kafka", "registry": "the schema registry", "disk": "the disk of a host",
}  # fmt: skip
SYSTEMS: Final[dict[System, IncidentKind]] = {
    system: IncidentKind(system, "lake", "warning", _PAGE,
        opens=f"{what} refuses or is silent for a minute; the mail says why: wrong credentials, no room, …",
        ends="a minute has passed since it answered",
        text=f"{{application}} waits for {what} since {{since}}: {{trouble}}: {{problem}} {{advice}}",
        fix="Mend it there: `lyrebird lake status`. A stream goes on by itself; a run of `lake_upload` ends, and the "
            "next one goes on.")
    for system, what in _SYSTEMS.items()
}  # fmt: skip
FENCED: Final = IncidentKind("fenced", "lake", "critical", _PAGE,
    opens="a newer [revision](glossary.md#revision) has taken over; the application ends",
    ends="", text="{application} was taken over: {error}.",
    fix="End what still runs of the older one: `lyrebird lake status`. Nothing is lost.")  # fmt: skip
STOPPED: Final = IncidentKind("stopped", "lake", "critical", _PAGE,
    opens="the application ends for a cause that a restart does not mend",
    ends="", text="{application} has stopped: {error}.{then}",
    fix="Mend it (`lyrebird lake status`), then clear its task.")  # fmt: skip

_AUDIT: Final = "lyrebird audit chain"


class LeftStanding(Terminal):
    """A run on a schedule has ended and left partitions behind that must not go on: their incident is open."""


def next_command(advice: str, topic: str = "") -> str:
    """The first whole command of an advice; "" where it names none."""
    for command in advised(advice):
        if command == _AUDIT and topic:
            return f"{_AUDIT} {topic}"
        if "…" not in command and command != _AUDIT:
            return command
    return ""
