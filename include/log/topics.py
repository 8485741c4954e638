"""The one place where names of topics are made and read, with the policy that each kind is created with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from include.errors import SettingsError
from include.log.ports import TopicSpec

__all__ = [
    "LARGEST_RECORD",
    "LARGEST_STORED",
    "RECORD_HEADS",
    "TopicKind",
    "TopicName",
    "answers",
    "change",
    "control",
    "dead",
    "declared",
    "document_spec",
    "event_spec",
    "idle",
    "late",
    "policy",
    "readable",
    "requests",
    "resolved",
    "resolved_of",
    "source_answers",
    "source_requests",
    "source_resolved",
    "state",
]

TopicKind = Literal["plain", "change", "control", "resolved", "requests", "answers", "state", "idle", "late", "dead"]
"""plain: as somebody declared it, or not of ours; change: a captured table's; the others end in that word."""

_LONGEST: Final = 249
_WORD: Final = re.compile(r"[A-Za-z0-9-]+")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_]+")
_NO_UNDERSCORE: Final = re.compile(r"[A-Za-z0-9]+")
_RESERVED: Final = tuple(kind for kind in get_args(TopicKind) if kind not in ("plain", "change"))
_OF_APPLICATIONS: Final = ("idle", "late", "dead")
_CDC: Final = "cdc"
_CHANGE_PARTS: Final = 4
_DAY_MS: Final = 86_400_000
_WEEK_MS: Final = str(7 * _DAY_MS)
_MONTH_MS: Final = str(30 * _DAY_MS)
LARGEST_RECORD: Final = 16 << 20
"""Bytes of the largest record that topics take; by itself Kafka takes one megabyte, which a BLOB soon has."""
RECORD_HEADS: Final = 4096
"""Bytes of such a record that are kept for its headers and its own head; the rest is for key and value."""
LARGEST_STORED: Final = str(LARGEST_RECORD + (1 << 16))
"""`max.message.bytes` of such topics: the largest record with the head of its batch."""

_EVENTS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": str(365 * _DAY_MS),
    "max.message.bytes": LARGEST_STORED,
}


@dataclass(frozen=True)
class TopicName:
    """A topic's name, read. `parse` takes any text, and `str` gives that text again.

    Attributes:
        kind: what the topic holds.
        subject: the topic that it belongs to, or `cdc.<source>`; the whole name where the kind is "plain" or "change".
        application: the one that writes it, where the name says so.
    """

    kind: TopicKind
    subject: str
    application: str | None = None

    @classmethod
    def parse(cls, name: str) -> TopicName:
        """Read a name. The parts are counted first: a captured table may be called like any of the kinds."""
        parts = name.split(".")
        *before, last = parts
        if not all(parts):
            return cls("plain", name)
        if parts[0] == _CDC and len(parts) == _CHANGE_PARTS:
            return cls("change", name)
        if last in _OF_APPLICATIONS and len(before) > 1:
            *subject, application = before
            return cls(cast(TopicKind, last), ".".join(subject), application)
        if last in _RESERVED and last not in _OF_APPLICATIONS and before:
            return cls(cast(TopicKind, last), ".".join(before))
        return cls("plain", name)

    def __str__(self) -> str:
        """The name."""
        word = None if self.kind in ("plain", "change") else self.kind
        return ".".join(part for part in (self.subject, self.application, word) if part is not None)

    @property
    def source(self) -> str | None:
        """The source that the topic is one of: a table's, or its control, resolved, requests or answers."""
        cdc, *rest = self.subject.split(".")
        of_source = len(rest) == 1 and self.application is None and self.kind != "plain"
        return rest[0] if cdc == _CDC and (self.kind == "change" or of_source) else None

    @property
    def table(self) -> str | None:
        """`database.table`, as the server calls it, where the topic has the changes of a table."""
        if self.kind != "change":
            return None
        *_, database, table = (_unescaped(part) for part in self.subject.split("."))
        return f"{database}.{table}"

    @property
    def resolved(self) -> TopicName:
        """The resolved topic that speaks for this one: its own, or the source's for what capture copies."""
        if self.source is not None and self.kind in ("change", "control"):
            return TopicName("resolved", f"{_CDC}.{self.source}")
        return TopicName("resolved", str(self))


def change(source: str, database: str, table: str) -> str:
    """`cdc.<source>.<database>.<table>`; in the database's name `_` is escaped too, as Kafka takes it for a dot."""
    return _name(_CDC, _word(source), _escape(database, _NO_UNDERSCORE), _escape(table))


def control(source: str) -> str:
    """`cdc.<source>.control`."""
    return _name(_CDC, _word(source), "control")


def source_resolved(source: str) -> str:
    """`cdc.<source>.resolved`."""
    return _name(_CDC, _word(source), "resolved")


def source_requests(source: str) -> str:
    """`cdc.<source>.requests`."""
    return _name(_CDC, _word(source), "requests")


def source_answers(source: str) -> str:
    """`cdc.<source>.answers`."""
    return _name(_CDC, _word(source), "answers")


def resolved(topic: str) -> str:
    """`<topic>.resolved`: what the application that writes `topic` is complete to."""
    return _name(topic, "resolved")


def resolved_of(topic: str) -> str:
    """The resolved topic that speaks for `topic`: its own, or its source's for a change or control topic."""
    return _name(str(TopicName.parse(topic).resolved))


def requests(topic: str) -> str:
    """`<topic>.requests`."""
    return _name(topic, "requests")


def state(topic: str) -> str:
    """`<topic>.state`: which version of its state the application that writes `topic` has committed."""
    return _name(topic, "state")


def answers(topic: str) -> str:
    """`<topic>.answers`."""
    return _name(topic, "answers")


def dead(topic: str, application: str) -> str:
    """`<topic>.<application>.dead`: records of `topic` that `application` set aside."""
    return _name(topic, _escape(application), "dead")


def late(topic: str, application: str) -> str:
    """`<topic>.<application>.late`: elements of `topic` that came too late for a job of `application`."""
    return _name(topic, _escape(application), "late")


def idle(topic: str, application: str) -> str:
    """`<topic>.<application>.idle`: what moved the watermarks of partitions of `topic` that brought nothing."""
    return _name(topic, _escape(application), "idle")


def declared(name: str) -> str:
    """A topic that a deployment file names; raises `SettingsError` for a name that another kind owns."""
    parts = name.split(".")
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name) or not all(parts):
        raise SettingsError("not a topic name", topic=name, allowed="letters, digits, '_', '-', '.' between parts")
    if parts[-1] in _RESERVED:
        raise SettingsError("a declared topic may not end in this word", topic=name, allowed=f"not {_RESERVED}")
    if parts[0] == _CDC:
        raise SettingsError("`cdc.` belongs to capture", topic=name, fix="Choose another first part.")
    return _name(name)


def readable(name: str) -> str:
    """A topic that a deployment file names as an input: declared, or a change topic; raises `SettingsError`."""
    return _name(name) if TopicName.parse(name).kind == "change" else declared(name)


def policy(name: str) -> dict[str, str]:
    """The configuration that a topic of this name is created with."""
    kind = TopicName.parse(name).kind
    if kind in ("requests", "answers"):
        return {"cleanup.policy": "compact,delete", "retention.ms": _MONTH_MS}
    if kind in ("dead", "late"):
        return _EVENTS
    if kind == "idle":
        # A replay reads them as it reads the data.
        return {**_EVENTS, "retention.ms": "-1"}
    return {
        "cleanup.policy": "compact",
        "max.message.bytes": LARGEST_STORED,
        "retention.ms": "-1",
        "min.compaction.lag.ms": _WEEK_MS,
        "delete.retention.ms": _WEEK_MS,
    }


def document_spec(name: str, partitions: int) -> TopicSpec:
    """A compacted topic kept for ever: documents, joined, status, change, control and resolved topics."""
    return TopicSpec(name, partitions, policy(name))


def event_spec(name: str, partitions: int) -> TopicSpec:
    """A topic that keeps all records of a key, for a year."""
    return TopicSpec(name, partitions, _EVENTS)


def _word(name: str) -> str:
    if not _WORD.fullmatch(name):
        raise SettingsError("not a source's or tenant's name", name=name, allowed="letters, digits and '-'")
    return name


def _escape(name: str, plain: re.Pattern[str] = _PLAIN) -> str:
    if plain.fullmatch(name):
        return name
    return "".join(chr(b) if plain.fullmatch(chr(b)) else f"-{b:02x}" for b in name.encode())


def _unescaped(part: str) -> str:
    parts = re.sub(rb"-([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), part.encode())
    return parts.decode(errors="replace")


def _name(*parts: str) -> str:
    name = ".".join(parts)
    if len(name.encode()) > _LONGEST:
        raise SettingsError("topic name is longer than Kafka allows", topic=name, allowed=f"{_LONGEST} bytes")
    return name
