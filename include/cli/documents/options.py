"""Finds the topic that a documents' command means, and reads the progress of its requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from include.clock import Clock
from include.document.database import DatabaseAddress
from include.document.definition import DocumentDefinition, database_of, definitions
from include.document.reading.mysql import MysqlTables
from include.document.rebuild import Rebuild, Rebuilds
from include.errors import LyrebirdError, SettingsError
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.ports import Record
from include.log.requests.records import Answer, Request
from include.settings.completion import names_of
from include.settings.connections import Kafka
from include.settings.deployment import Deployment

__all__ = ["ShownRequest", "chosen", "read_requests", "topic_option"]

topic_option = click.option(
    "--topic",
    shell_complete=names_of("documents"),
    help="The documents' topic, an entry of `documents`; not needed where there is one only.",
)


@dataclass(frozen=True)
class ShownRequest:
    """A request and how far it is. `share`: of the range of keys that is done, None where it cannot be told."""

    id: str
    state: str
    done: int
    note: str
    asked_us: int
    told_us: int
    share: float | None = None

    @property
    def left_s(self) -> float | None:
        """Seconds until its end at the pace so far; None while there is none."""
        if self.state != "running" or not self.share or self.told_us <= self.asked_us:
            return None
        return (self.told_us - self.asked_us) / 1e6 * (1 - self.share) / self.share

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "id": self.id,
            "state": self.state,
            "done": self.done,
            "note": self.note,
            "share": None if self.share is None else round(self.share, 4),
            "left_s": None if self.left_s is None else round(self.left_s, 1),
        }

    def line(self) -> str:
        """As a person reads it."""
        from include.cli.table import duration

        text = f"request {self.id}: {self.state}, {self.done:,} documents"
        if self.share is not None and self.state == "running":
            text += f", {self.share:.0%} of the keys"
        if self.left_s is not None:
            text += f", about {duration(self.left_s)} left"
        return f"{text} ({self.note})" if self.note else text


def chosen(topic: str | None) -> tuple[Deployment, str, DocumentDefinition]:
    """The definition that is meant; raises `SettingsError` naming what there is."""
    deployment = Deployment.load()
    declared = definitions(deployment)
    if topic is None and len(declared) == 1:
        return deployment, *next(iter(declared.items()))
    if topic is None:
        said = "which documents? There are several topics" if declared else "no documents are declared"
        raise SettingsError(said, allowed=sorted(declared), fix="Name one with --topic.")
    if topic not in declared:
        raise SettingsError("no such document topic", topic=topic, allowed=sorted(declared), fix="Give one of these.")
    return deployment, topic, declared[topic]


def read_requests(
    deployment: Deployment, topic: str, definition: DocumentDefinition, clock: Clock
) -> list[ShownRequest]:
    """All requests of a topic, oldest first; those that nobody has answered yet stand as `asked`."""
    asked = [Request.parse(record.value) for record in _records(deployment, topics.requests(topic)) if record.value]
    answers = _records(deployment, topics.answers(topic))
    newest = {answer.id: answer for answer in (Answer.parse(record.value) for record in answers if record.value)}
    open_ = Rebuilds(answers).open
    last = _bounds(database_of(deployment, definition), definition, clock) if open_ else None
    shown: dict[str, ShownRequest] = {}
    for request in asked:
        shown[request.id] = ShownRequest(request.id, "asked", 0, "", request.at_us, request.at_us)
    for answer in newest.values():
        rebuild = open_.get(answer.id)
        since = rebuild.request.at_us if rebuild else shown[answer.id].asked_us if answer.id in shown else answer.at_us
        share = _share(rebuild, last) if rebuild and last else None
        shown[answer.id] = ShownRequest(answer.id, answer.state, answer.done, answer.note, since, answer.at_us, share)
    return sorted(shown.values(), key=lambda each: each.asked_us)


def _share(rebuild: Rebuild, bounds: tuple[int, int]) -> float | None:
    """Of a key that is one integer: how much of its range is passed."""
    low, high = bounds
    if rebuild.after is None or not isinstance(rebuild.after[0], int):
        return None
    return min(1.0, (rebuild.after[0] - low + 1) / max(1, high - low + 1))


def _bounds(server: DatabaseAddress, definition: DocumentDefinition, clock: Clock) -> tuple[int, int] | None:
    """The least and the greatest key, where it is one integer and the database answers."""
    fact = definition.fact
    tables = MysqlTables(server, definition.database, clock)
    try:
        if len(fact.key) > 1 or tables.columns(fact.table)[fact.key[0]].avro() not in ("int", "long"):
            return None
        return tables.bounds(fact.table, fact.key[0])
    except LyrebirdError:
        # An estimate is all that is lost.
        return None
    finally:
        tables.close()


def _records(deployment: Deployment, name: str) -> list[Record]:
    """A topic's records, in order; none when there is no such topic."""
    kafka = deployment.one("kafka", Kafka)
    if KafkaAdmin(kafka.bootstrap, kafka.options).describe(name) is None:
        return []
    reader = KafkaReader(kafka.bootstrap, kafka.options)
    try:
        begins, ends = reader.begin_offsets(name), reader.end_offsets(name)
        return [record for p, end in ends.items() for record in reader.read(name, p, begins[p], end)]
    finally:
        reader.close()
