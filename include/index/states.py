"""Reads from a record the document and the state that it gives it: the one reading of indexer and audits."""

from __future__ import annotations

from dataclasses import dataclass

from include.index.bulk.lines import line_maker
from include.index.definition import IndexDefinition
from include.index.feed import Feed
from include.index.mapping.evolving import BodyOf
from include.index.metadata import TopicOrigin
from include.index.progress.document import IndexProgress
from include.index.progress.partition_epochs import PartitionEpochs, known_numbers
from include.log.ports import Headers, Record, SchemaRegistry
from include.record.json.formats import Keys, Values
from include.record.key import pseudo_key
from include.record.version import from_headers
from include.settings.connections import Cluster

__all__ = ["State", "States", "feed_of"]


@dataclass(frozen=True, slots=True)
class State:
    """A state of a document; `body` is canonical JSON, None where the document is deleted."""

    doc_id: str
    version: int
    body: bytes | None


def feed_of(cluster: Cluster, definition: IndexDefinition, topic: str, progress: IndexProgress) -> Feed:
    """The feed of `topic` as declared, with what its progress document knows; raises `SettingsError`."""
    own = definition.topics[topic]
    by_key = definition.versions == "offset" and own.key != "none" and own.partitioner == "murmur2"
    return Feed(
        TopicOrigin(cluster.name, cluster.type, topic, own.generation),
        own,
        definition.versions,
        len(definition.topics) > 1,
        known_numbers(own.partitions, progress.partitions) if by_key else (),
        max(progress.floors.values(), default=0),
    )


class States:
    """Reads the records of one feed.

    `lines` makes both lines of a bulk request at once, where a feed's records allow it.
    Its methods raise `InvalidRecord` for a record to be set aside, `Terminal` where nobody can say which state is
    newer, and what the registry raises.
    """

    def __init__(self, feed: Feed, registry: SchemaRegistry, formats: tuple[Keys, BodyOf] | None = None) -> None:
        self.feed = feed
        self.keyed = feed.topic.key != "none"
        self.lines = line_maker(feed, registry)
        self._keys: Keys
        self.body: BodyOf
        self._keys, self.body = formats or (Keys(registry, feed.topic.key), Values(registry, feed.topic.value))
        self._epochs = (
            PartitionEpochs(feed.name, feed.origin.generation, feed.numbers if self.keyed else ())
            if feed.versions == "offset"
            else None
        )

    def identity(self, partition: int, offset: int, key: bytes | None, headers: Headers | None) -> tuple[str, int]:
        """The document's id (`metadata.doc_id`) and the version of its state."""
        if self.keyed:
            doc_id = self._keys(key)
        else:
            origin = self.feed.origin
            doc_id = pseudo_key(origin.cluster_name, origin.cluster_type, origin.topic, partition, offset)
        if self._epochs is None:
            return doc_id, from_headers(headers or ())
        return doc_id, self._epochs.version(key if self.keyed else None, partition, offset)

    def makes_document(self, value: bytes | None) -> bool:
        """Whether a record says anything: one without key and value names no document that it could delete."""
        return self.keyed or value is not None

    def of(self, record: Record) -> State | None:
        """The state that `record` gives its document; None where it makes none, or lies below the table's floor."""
        if not self.makes_document(record.value):
            return None
        doc_id, version = self.identity(record.partition, record.offset, record.key, record.headers)
        return None if version < self.feed.floor else State(doc_id, version, self.body(record.value))
