"""A restore in a deployment: from its bucket to its Kafka."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from include.clock import Clock
from include.errors import SettingsError
from include.lake.backfill.asked import Days, parse_offsets
from include.lake.backfill.followed import only_life
from include.lake.backfill.planning import Bucket
from include.lake.backfill.request import group_of
from include.lake.definition import declared_groups
from include.lake.restore.begun import Restore, begin, check_target
from include.lake.restore.copying import Kafka, Limits, Tell, copy
from include.lake.restore.groups import committed_of, translate
from include.lake.restore.plan import RestoreAsked, RestorePlan
from include.lake.restore.planning import make_plan
from include.lake.restore.restored import Restored
from include.lake.runner import Runner
from include.lake.stored import require_stored
from include.lake.task import patience
from include.lake.worker import store_of
from include.log.kafka import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.topics import declared
from include.settings.connections import Kafka as KafkaSettings
from include.settings.connections import ObjectStore
from include.settings.deployment import Deployment

__all__ = ["Deployed", "RestoreRequest", "Standing", "kafka_of"]


@dataclass(frozen=True)
class RestoreRequest:
    """Texts as the command has them; what is "" or None is left out. Days are included; `group` is the backup's."""

    topic: str
    target: str
    since: str = ""
    until: str = ""
    zone: str = "UTC"
    offsets: tuple[str, ...] = ()
    partitions: int | None = None
    group: str = ""
    topic_id: str = ""
    groups: tuple[str, ...] = ()

    def asked(self) -> RestoreAsked:
        """What is asked for; `SettingsError` for what cannot be."""
        if self.until and not self.since:
            raise SettingsError("a last day without a first one", until=self.until, fix="Give --from, too.")
        first = _day(self.since) if self.since else None
        days = None if first is None else Days(first, _day(self.until) if self.until else first)
        return RestoreAsked(self.topic, declared(self.target), days, self.zone, parse_offsets(self.offsets))


@dataclass(frozen=True)
class Standing:
    """A plan, and what stands of it: the restore that has begun, what the consumer groups have committed.

    `there`: the target is, though no restore has begun.
    """

    plan: RestorePlan
    begun: Restore | None
    there: bool
    committed: dict[str, dict[int, int]]

    def lines(self) -> list[str]:
        """For a person."""
        target = self.plan.asked.target
        says = f"{target}: this restore has begun, and goes on" if self.begun else f"{target}: it is made anew"
        if self.there:
            says = f"{target} is there, and empty: its own retention and cleanup decide what it keeps of the records"
        told = [f"group {group}: {len(offsets)} partitions" for group, offsets in self.committed.items()]
        return [*self.plan.lines(), says, *told]


@dataclass(frozen=True)
class Deployed:
    """What a restore finds in a deployment."""

    deployment: Deployment
    bucket: Bucket
    kafka: Kafka
    clock: Clock

    @classmethod
    def of(cls, deployment: Deployment, clock: Clock) -> Deployed:
        """From the deployment's sections; raises `SettingsError`."""
        store = store_of(deployment.one("store", ObjectStore))
        return cls(deployment, Bucket(store, patience(clock)), kafka_of(deployment.one("kafka", KafkaSettings)), clock)

    def plan(self, request: RestoreRequest) -> Standing:
        """What would be done; writes nothing. Raises what `make_plan`, `check_target` and `committed_of` do."""
        groups = declared_groups(self.deployment)
        asked = request.asked()
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
        committed = committed_of(self.kafka, source, request.groups)
        return Standing(begun.plan if begun else plan, begun, there, committed)

    def perform(self, standing: Standing, tell: Tell, limits: Limits | None = None) -> Restored:
        """Carry it out, or go on with it; each step may be taken again after a crash.

        1. the target topic and the kept plan
        2. its records, and the map of each transaction
        3. the object `map`
        4. offsets of the consumer groups
        """
        reader, admin, bucket = self.kafka.reader, self.kafka.admin, self.bucket
        # 1. The topic.
        restore = begin(bucket, reader, admin, standing.plan)
        # 2. The records.
        maps = copy(bucket, self.kafka, restore, self.clock, tell, limits)
        whole = Restored(restore, maps)
        # 3. The map.
        Runner(bucket.store, bucket.pause).ask(lambda: bucket.store.put(whole.map_key, whole.map_bytes()))
        # 4. The groups.
        groups = translate(self.kafka, bucket, restore, maps, standing.committed)
        return Restored(restore, maps, groups)


def kafka_of(settings: KafkaSettings) -> Kafka:
    """The ports of a real Kafka."""
    bootstrap, options = settings.bootstrap, settings.options
    return Kafka(
        KafkaReader(bootstrap, options),
        KafkaAdmin(bootstrap, options),
        lambda transactional_id: KafkaWriter(bootstrap, transactional_id, options),
    )


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise SettingsError("not a day", got=text, fix="Write YYYY-MM-DD.") from None
