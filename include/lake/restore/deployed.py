"""A restore in a deployment: from its bucket to its Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from include.clock import Clock
from include.errors import SettingsError
from include.lake.backfill.live_cuts import only_life
from include.lake.backfill.planning import LakeStore
from include.lake.backfill.request import group_of
from include.lake.definition import declared_groups
from include.lake.protocol.inventory import require_stored
from include.lake.protocol.runner import Runner
from include.lake.restore.copying import RestoreLog, Tell, TransactionLimits, copy
from include.lake.restore.groups import committed_of, translate
from include.lake.restore.manifest import Restore, begin, check_target
from include.lake.restore.offset_map import OffsetSpan, committed_parts, read_part
from include.lake.restore.plan import RestorePlan
from include.lake.restore.planning import make_plan
from include.lake.restore.request import RestoreRequest
from include.lake.restore.result import RestoreResult
from include.lake.restore.schema_ids import SchemaIds
from include.lake.writing.task import patience
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.ports import SchemaRegistry
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Kafka as KafkaSettings
from include.settings.connections import Registry, StoreSettings
from include.settings.deployment import Deployment
from include.store.s3 import store_of

__all__ = ["DeployedRestore", "RestoreState", "kafka_of"]


@dataclass(frozen=True)
class RestoreState:
    """A plan, and what stands of it: the restore that has begun, what the consumer groups have committed.

    `there`: the target is, though no restore has begun.
    """

    plan: RestorePlan
    begun: Restore | None
    there: bool
    committed: dict[str, dict[int, int]]
    lacking: tuple[int, ...] = ()
    """Ids of schemas that the backup keeps, for any of its topics, and the registry lacks or has for others."""

    def lines(self) -> list[str]:
        """For a person."""
        target = self.plan.asked.target
        says = f"{target}: this restore has begun, and goes on" if self.begun else f"{target}: it is made anew"
        if self.there:
            says = f"{target} is there, and empty: its own retention and cleanup decide what it keeps of the records"
        told = [f"group {group}: {len(offsets)} partitions" for group, offsets in self.committed.items()]
        if self.lacking:
            told.append(
                f"the registry lacks {len(self.lacking)} of the schemas that the backup keeps, or has others by their"
                f" ids ({_few(self.lacking)}): those that records need are registered, and their ids replaced"
            )
        return [*self.plan.lines(), says, *told]


@dataclass(frozen=True)
class DeployedRestore:
    """What a restore finds in a deployment."""

    deployment: Deployment
    bucket: LakeStore
    kafka: RestoreLog
    clock: Clock
    registry: SchemaRegistry | None = None

    @classmethod
    def of(cls, deployment: Deployment, clock: Clock) -> DeployedRestore:
        """From the deployment's sections; raises `SettingsError`."""
        store = store_of(deployment.one("store", StoreSettings))
        kafka = kafka_of(deployment.one("kafka", KafkaSettings))
        registry = ConfluentRegistry(deployment.one("registry", Registry)) if deployment.has("registry") else None
        return cls(deployment, LakeStore(store, patience(clock)), kafka, clock, registry)

    def plan(self, request: RestoreRequest) -> RestoreState:
        """What would be done; writes nothing. Raises what `make_plan`, `check_target` and `committed_of` do."""
        groups = declared_groups(self.deployment)
        asked = request.asked(keep_ids=self.registry is None)
        prefixes = [group.prefix for group in groups.values() if group.kind == "backup"]
        require_stored(self.bucket.store, prefixes, asked.topic)
        backup = groups[group_of(groups, asked.topic, "backup", request.group, "--group")]
        rule = backup.rule(asked.topic)
        sequence = rule.format.sequence if rule else None
        if sequence is None or sequence.layout != "verbatim":
            raise SettingsError(
                "this backup does not keep all of a record",
                topic=asked.topic,
                allowed="sequence: {layout: verbatim}",
                fix="Name a group that does: --group.",
            )
        source = only_life(self.bucket.store, backup.prefix, asked.topic, request.topic_id)
        plan = make_plan(self.bucket, self.kafka.admin, source, asked, request.partitions)
        begun = check_target(self.bucket, self.kafka.reader, self.kafka.admin, plan)
        there = begun is None and self.kafka.admin.describe(asked.target) is not None
        committed = committed_of(self.kafka, source, request.consumer_groups)
        ids = self._ids(begun.plan if begun else plan)
        lacking = tuple(ids.lacking) if ids else ()
        return RestoreState(begun.plan if begun else plan, begun, there, committed, lacking)

    def spans(self, request: RestoreRequest) -> dict[int, list[OffsetSpan]]:
        """Which records of a topic are where in what it was restored to, by partition.

        Raises:
            SettingsError: no such restore has begun.
            Terminal: it is not whole, or objects of its map are gone.
        """
        restore = self.plan(request).begun
        if restore is None:
            raise SettingsError(
                "the topic was not restored there",
                topic=request.topic,
                target=request.target,
                fix=f"`lyrebird lake restore {request.topic} --to {request.target}` does it.",
            )
        ask, store = Runner(self.bucket.store, self.bucket.pause).ask, self.bucket.store
        spans = {}
        for partition, (first, until) in restore.plan.ranges.items():
            names = ask(partial(committed_parts, store, restore.folder, partition, first, until))
            parts = [ask(partial(read_part, store, restore.folder, name)) for name in names]
            spans[partition] = [span for part in parts for span in part.spans]
        return spans

    def _ids(self, plan: RestorePlan) -> SchemaIds | None:
        if self.registry is None or plan.asked.keep_ids:
            return None
        return SchemaIds(self.registry, self.bucket.store, plan.source.prefix, plan.asked.target)

    def perform(self, standing: RestoreState, tell: Tell, limits: TransactionLimits | None = None) -> RestoreResult:
        """Carry it out, or go on with it; each step may be taken again after a crash.

        1. the target topic and the kept plan
        2. its records, and the map of each transaction; before a transaction, the schemas of what is in it
        3. the object `map`
        4. offsets of the consumer groups
        """
        reader, admin, bucket = self.kafka.reader, self.kafka.admin, self.bucket
        # 1. The topic.
        restore = begin(bucket, reader, admin, standing.plan)
        # 2. The records.
        ids = self._ids(restore.plan)
        maps = copy(bucket, self.kafka, restore, self.clock, tell, limits, ids)
        whole = RestoreResult(restore, maps)
        # 3. The map.
        Runner(bucket.store, bucket.pause).ask(lambda: bucket.store.put(whole.map_key, whole.map_bytes()))
        # 4. The groups.
        groups = translate(self.kafka, bucket, restore, maps, standing.committed)
        return RestoreResult(restore, maps, groups, ids.replaced if ids else ())


def kafka_of(settings: KafkaSettings) -> RestoreLog:
    """The ports of a real Kafka."""
    bootstrap, options = settings.bootstrap, settings.options
    return RestoreLog(
        KafkaReader(bootstrap, options),
        KafkaAdmin(bootstrap, options),
        lambda transactional_id: KafkaWriter(bootstrap, transactional_id, options),
    )


def _few(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:5])) + (", …" if len(ids) > 5 else "")
