"""The one place where names of topics are made (design.md §4), with the policy that each kind is created with."""

from __future__ import annotations

import re
from typing import Final

from include.errors import SettingsError
from include.log.ports import TopicSpec

__all__ = [
    "LARGEST_RECORD",
    "LARGEST_STORED",
    "RECORD_HEADS",
    "answers",
    "change",
    "control",
    "dead",
    "declared",
    "document_spec",
    "policy",
    "readable",
    "requests",
    "resolved",
    "source_answers",
    "source_requests",
    "source_resolved",
]

_LONGEST: Final = 249
_WORD: Final = re.compile(r"[A-Za-z0-9-]+")
_RESERVED: Final = ("resolved", "idle", "requests", "answers", "late", "dead", "control")
_DAY_MS: Final = 86_400_000
_WEEK_MS: Final = str(7 * _DAY_MS)
_MONTH_MS: Final = str(30 * _DAY_MS)
LARGEST_RECORD: Final = 16 << 20
"""Bytes of the largest record that topics take; by itself Kafka takes one megabyte, which a BLOB soon has."""
RECORD_HEADS: Final = 4096
"""Bytes of such a record that are kept for its headers and its own head; the rest is for key and value."""
LARGEST_STORED: Final = str(LARGEST_RECORD + (1 << 16))
"""`max.message.bytes` of such topics: the largest record with the head of its batch."""


def change(source: str, database: str, table: str) -> str:
    """`cdc.<source>.<database>.<table>`; in the database's name `_` is escaped too, as Kafka takes it for a dot."""
    return _name("cdc", _word(source), _escape(database, "A-Za-z0-9"), _escape(table, "A-Za-z0-9_"))


def control(source: str) -> str:
    """`cdc.<source>.control`."""
    return _name("cdc", _word(source), "control")


def source_resolved(source: str) -> str:
    """`cdc.<source>.resolved`."""
    return _name("cdc", _word(source), "resolved")


def source_requests(source: str) -> str:
    """`cdc.<source>.requests`."""
    return _name("cdc", _word(source), "requests")


def source_answers(source: str) -> str:
    """`cdc.<source>.answers`."""
    return _name("cdc", _word(source), "answers")


def resolved(topic: str) -> str:
    """`<topic>.resolved`: what the application that writes `topic` is complete to."""
    return _name(topic, "resolved")


def requests(topic: str) -> str:
    """`<topic>.requests`."""
    return _name(topic, "requests")


def answers(topic: str) -> str:
    """`<topic>.answers`."""
    return _name(topic, "answers")


def dead(topic: str, application: str) -> str:
    """`<topic>.<application>.dead`: records of `topic` that `application` set aside."""
    return _name(topic, _escape(application, "A-Za-z0-9_"), "dead")


def declared(name: str) -> str:
    """A topic that a deployment file names; raises `SettingsError` for a name that another kind owns."""
    parts = name.split(".")
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name) or not all(parts):
        raise SettingsError("not a topic name", topic=name, allowed="letters, digits, '_', '-', '.' between parts")
    if parts[-1] in _RESERVED:
        raise SettingsError("a declared topic may not end in this word", topic=name, allowed=f"not {_RESERVED}")
    if parts[0] == "cdc":
        raise SettingsError("`cdc.` belongs to capture", topic=name, fix="Choose another first part.")
    return _name(name)


def readable(name: str) -> str:
    """A topic that a deployment file names as an input: declared, or a change topic; raises `SettingsError`."""
    parts = name.split(".")
    return _name(name) if parts[0] == "cdc" and len(parts) == 4 and all(parts) else declared(name)


def policy(name: str) -> dict[str, str]:
    """The configuration that a topic of this name is created with."""
    parts = name.split(".")
    # Of a change topic the last part is a table's name, whatever word that is.
    last = "" if parts[0] == "cdc" and len(parts) == 4 else parts[-1]
    if last in ("requests", "answers"):
        return {"cleanup.policy": "compact,delete", "retention.ms": _MONTH_MS}
    if last in ("dead", "late"):
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(365 * _DAY_MS),
            "max.message.bytes": LARGEST_STORED,
        }
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


def _word(name: str) -> str:
    if not _WORD.fullmatch(name):
        raise SettingsError("not a source's or tenant's name", name=name, allowed="letters, digits and '-'")
    return name


def _escape(name: str, plain: str) -> str:
    keep = re.compile(f"[{plain}]".encode())
    return "".join(chr(b) if keep.match(bytes((b,))) else f"-{b:02x}" for b in name.encode())


def _name(*parts: str) -> str:
    name = ".".join(parts)
    if len(name.encode()) > _LONGEST:
        raise SettingsError("topic name is longer than Kafka allows", topic=name, allowed=f"{_LONGEST} bytes")
    return name
