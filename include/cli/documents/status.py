"""`lyrebird documents status`: how far assemblers are, and what they ask of the source's database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import orjson

from include.cli.colours import painted
from include.cli.documents.options import ShownRequest, chosen, read_requests, topic_option
from include.cli.json_option import json_option
from include.clock import Clock, SystemClock, iso
from include.document.definition import DocumentDefinition, database_of, definitions
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.planning.plan import Cut
from include.log.planning.tail import PortTail, ResolvedTail
from include.metrics.progress import PROGRESS, last_run_folder, read_file
from include.settings.connections import Kafka
from include.settings.deployment import Deployment
from include.settings.environment import state_folder

__all__ = ["command"]

_DONE = ("done", "refused")


@click.command(name="status")
@topic_option
@json_option()
def command(topic: str | None, as_json: bool) -> None:
    """How far the assemblers are: position in the source, its age, documents, load on the database, open requests."""
    if topic is not None:
        chosen(topic)
    deployment = Deployment.load()
    statuses = [
        _status(deployment, name, definition, SystemClock())
        for name, definition in definitions(deployment).items()
        if topic in (None, name)
    ]
    if as_json:
        values = [status.to_json() for status in statuses]
        # The one topic of most deployments beside the rest, as readers of a single one look for it there.
        only = values[0] if len(values) == 1 else {}
        click.echo(orjson.dumps({"documents": values, **only}).decode())
    else:
        click.echo(painted("\n".join(line for status in statuses for line in status.lines())))


@dataclass(frozen=True)
class _Status:
    """One topic. `cut`: its newest resolved record; `told`: the application's last report on this host."""

    topic: str
    definition: DocumentDefinition
    server: str
    cut: Cut | None
    ends: dict[Any, int]
    age_s: float
    requests: list[ShownRequest]
    told: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        requests = [each.to_json() for each in self.requests]
        read = {
            "from": self.server,
            "replica": self.definition.read_from is not None,
            "rows_per_s": self.definition.read_rows_per_s,
            "connections": self.definition.read_connections,
            "last_batch": self._last_batch(),
        }
        found: dict[str, Any] = {"topic": self.topic, "state": "never run", "requests": requests, "read": read}
        found["waiting_for"] = self.told.get("waiting_for")
        if self.cut is None:
            return found
        return found | {
            "state": "started",
            "position": str(self.cut.position.gtids),
            "committed_at": iso(self.cut.position.commit_us),
            "age_s": round(self.age_s, 3),
            "uncovered": list(self.cut.uncovered),
            "partitions": len(self.ends),
            "records": sum(self.ends.values()),
        }

    def lines(self) -> list[str]:
        lines = [f"{self.topic}: {'never run' if self.cut is None else 'started'}"]
        if self.cut is not None:
            at = iso(self.cut.position.commit_us)
            lines.append(f"  complete to {self.cut.position.gtids}, committed {at} ({self.age_s:.0f} s ago)")
            lines.append(f"  offsets {sum(self.ends.values()):,} in {len(self.ends)} partitions")
            if self.cut.uncovered:
                lines.append(f"  not covered: changes of {', '.join(self.cut.uncovered)} may be missing")
        limit = f"at most {self.definition.read_rows_per_s:,} rows/s" if self.definition.read_rows_per_s else "no limit"
        most = self.definition.read_connections
        kind = "replica " if self.definition.read_from is not None else ""
        lines.append(f"  reads from {kind}{self.server} by one connection, a large batch by {most} at most, {limit}")
        if waiting_for := self.told.get("waiting_for"):
            lines.append(f"  waits: {waiting_for}")
        last = self._last_batch()
        if last:
            lines.append(
                f"  last batch: {last['documents']:,} documents of {last['source_rows']:,} rows by"
                f" {last['source_statements']} statements, held back {last['held_back_s']:.1f} s"
            )
        return lines + [f"  {each.line()}" for each in self.requests]

    def _last_batch(self) -> dict[str, Any]:
        names = ("documents", "tombstones", "source_rows", "source_statements", "held_back_s")
        return {name: self.told[name] for name in names} if all(name in self.told for name in names) else {}


def _status(deployment: Deployment, topic: str, definition: DocumentDefinition, clock: Clock) -> _Status:
    kafka = deployment.one("kafka", Kafka)
    admin, reader = KafkaAdmin(kafka.bootstrap, kafka.options), KafkaReader(kafka.bootstrap, kafka.options)
    name = topics.resolved(topic)
    try:
        resolved = None
        if admin.describe(name) is not None:
            resolved = ResolvedTail(PortTail(reader, name), name).poll()
    finally:
        reader.close()
    cut, ends = (resolved.cut, dict(resolved.ends)) if resolved else (None, {})
    server = database_of(deployment, definition)
    return _Status(
        topic,
        definition,
        server.place,
        cut,
        ends,
        0.0 if cut is None else (clock.now_us() - cut.position.commit_us) / 1e6,
        [each for each in read_requests(deployment, topic, definition, clock) if each.state not in _DONE],
        read_file(last_run_folder(definition.application, state_folder()) / PROGRESS),
    )
