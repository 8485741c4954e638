"""`lyrebird index status`: how far an index has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
import orjson

from include.cli.colours import painted
from include.cli.json_option import json_option
from include.cli.table import table
from include.errors import Terminal
from include.index.definition import index_named
from include.index.generations.active import serving
from include.index.outcome import SETTLED
from include.index.progress.document import IndexProgress, read_progress
from include.index.server.elasticsearch import ElasticsearchIndex
from include.log import topics
from include.log.kafka.log import KafkaReader
from include.log.publishing.unended import find_hanging
from include.settings.completion import names_of
from include.settings.connections import Elasticsearch, Kafka
from include.settings.deployment import Deployment

__all__ = ["command"]


@click.command(name="status")
@click.argument("name", shell_complete=names_of("indexes"))
@json_option()
def command(name: str, as_json: bool) -> None:
    """Show how far index NAME has come: offsets, source position, records waiting and set aside."""
    deployment = Deployment.load()
    definition = index_named(deployment, name)
    kafka = deployment.one("kafka", Kafka)
    index = ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))
    reader = KafkaReader(kafka.bootstrap, dict(kafka.options))
    try:
        info = serving(index, name)
        statuses = [
            _Status(
                read_progress(index, info, topic) or IndexProgress(topic),
                _ends(reader, topic),
                topics.dead(topic, definition.application),
                sum(_ends(reader, topics.dead(topic, definition.application)).values()),
                {p: offset for (_, p), offset in sorted(reader.unended([topic]).items())},
            )
            for topic in definition.topics
        ]
    finally:
        reader.close()
        index.close()
    if as_json:
        each_topic = [status.to_json() for status in statuses]
        # The one topic of most indexes beside the rest, as readers of a single one look for it there.
        only = each_topic[0] if len(statuses) == 1 else {}
        click.echo(orjson.dumps({"index": info.name, "uuid": info.uuid, "topics": each_topic, **only}).decode())
        return
    for status in statuses:
        click.echo(f"{info.name} from {status.progress.topic}: {status.waiting} records waiting")
        click.echo(painted("\n".join(status.lines())))


@dataclass(frozen=True)
class _Status:
    """One topic of an index; `dead` counts the offsets of its dead-letter topic.

    `open`: offsets from which on partitions show nothing, as the transaction that begins there has no end.
    """

    progress: IndexProgress
    ends: Mapping[int, int]
    dead_topic: str
    dead: int
    open: Mapping[int, int]

    @property
    def waiting(self) -> int:
        return sum(max(0, end - self.progress.acked.get(p, 0)) for p, end in self.ends.items())

    def to_json(self) -> dict[str, Any]:
        known = self.progress
        return {
            "topic": known.topic,
            "acked": _texts(known.acked),
            "searchable": _texts(known.searchable),
            "ends": _texts(self.ends),
            "waiting": self.waiting,
            "open_transactions": _texts(self.open),
            "set_aside": self.dead > 0,
            "complete": known.complete.to_json() if known.complete else None,
            "visible": known.visible.to_json() if known.visible else None,
            "counts": {str(p): dict(of) for p, of in known.counts.items()},
        }

    def lines(self) -> Iterator[str]:
        known = self.progress
        names = ["partition", "indexed to", "searchable to", "end"]
        vectors = (known.acked, known.searchable, self.ends)
        rows = [[str(p), *(str(of.get(p, 0)) for of in vectors)] for p in sorted(self.ends)]
        yield table(names, rows, right=names)
        totals = {name: sum(of.get(name, 0) for of in known.counts.values()) for name in ("read", *SETTLED)}
        yield ", ".join(f"{name} {count:,}" for name, count in totals.items() if count) or "nothing read yet"
        if known.complete:
            yield f"complete to {known.complete.gtids} ({known.complete.binlog})"
        for p, offset in self.open.items():
            find = find_hanging(known.topic, p)
            yield f"partition {p} shows nothing from {offset} on, as a transaction has no end; if it stays so: {find}"
        if self.dead:
            yield f"documents were set aside: see topic {self.dead_topic}"


def _ends(reader: KafkaReader, topic: str) -> dict[int, int]:
    """Its ends; none for a topic that nobody has made yet."""
    try:
        return reader.end_offsets(topic)
    except Terminal:
        return {}


def _texts(vector: Mapping[int, int]) -> dict[str, int]:
    return {str(p): offset for p, offset in sorted(vector.items())}
