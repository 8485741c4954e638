"""Opens the state that a command of `lyrebird state` means: its join, log and store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from include.join.config.deployed import DeployedJoin
    from include.log.kafka.log import KafkaReader, KafkaWriter
    from include.state.opening import StatePlace
    from include.store.s3 import S3Store

__all__ = ["StateOfJoin", "state_of_join"]


@dataclass(frozen=True)
class StateOfJoin:
    """A join's state: the join, its log, and the store and place of its buckets."""

    join: DeployedJoin
    reader: KafkaReader
    store: S3Store
    place: StatePlace
    bootstrap: str
    options: dict[str, str | int | bool] = field(repr=False)

    def writer(self, name: str) -> KafkaWriter:
        """A transactional writer of this name."""
        from include.log.kafka.writer import KafkaWriter

        return KafkaWriter(self.bootstrap, name, self.options)


@contextmanager
def state_of_join(name: str) -> Iterator[StateOfJoin]:
    """The state of the join of this name; raises `SettingsError` with the names that there are."""
    from include.join.committed import state_place
    from include.join.config.deployed import declared_joins
    from include.log.kafka.log import KafkaReader
    from include.settings.connections import Kafka, StoreSettings
    from include.settings.deployment import Deployment
    from include.settings.environment import state_folder
    from include.settings.names import require_known
    from include.store.s3 import store_of

    deployment = Deployment.load()
    joins = declared_joins(deployment)
    require_known(name, joins, "no join of this name is declared")
    kafka = deployment.one("kafka", Kafka)
    reader, store = KafkaReader(kafka.bootstrap, kafka.options), store_of(deployment.one("store", StoreSettings))
    try:
        place = state_place(joins[name].topic, state_folder() / "by-hand")
        yield StateOfJoin(joins[name], reader, store, place, kafka.bootstrap, dict(kafka.options))
    finally:
        reader.close()
        store.close()
