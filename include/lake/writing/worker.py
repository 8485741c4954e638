"""Tasks in a process that Spark keeps for them: what they work with is made once, from plain values."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from include.clock import SystemClock
from include.errors import LyrebirdError, Terminal, Transient
from include.lake.definition import LakeGroup
from include.lake.parsing.definition import ParserContext
from include.lake.reading.kafka_ranges import KafkaRanges
from include.lake.reading.kept_schemas import KeptRegistry, SchemaKeeper
from include.lake.reading.schema_lookup import PatientRegistry
from include.lake.writing.log_cuts import CutLogics
from include.lake.writing.task import Outcome, RunTask, Task, TaskContext, run_task
from include.lake.writing.topic_pipelines import logics_of
from include.log.ports import SchemaRegistry
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.deployment import Strict
from include.settings.secret import REVEALED
from include.store.s3 import store_of
from include.store.task_folder import sweep, task_folder

__all__ = ["TaskPlace", "work"]

LOGGER: Final = logging.getLogger("lyrebird.lake")


@dataclass(frozen=True)
class TaskPlace:
    """Where a task finds everything: plain values, as it travels with each task.

    `settings` is JSON: the sections `kafka`, `registry` (or null), `store` and the group's own declaration; so a
    driver decides what they are, and a process knows them again. `folder`: of the deployment's files, which parsers may
    name; it is on every host that runs tasks.
    """

    settings: str = field(repr=False)
    folder: str

    @classmethod
    def of(
        cls,
        group: LakeGroup,
        kafka: Kafka,
        registry: Registry | None,
        store: StoreSettings,
        folder: Path,
        *,
        kept_in: Sequence[str] = (),
    ) -> TaskPlace:
        """The place of a group's tasks.

        Args:
            group: as it is declared.
            kafka: section of the deployment.
            registry: section of the deployment; None: there is no registry.
            store: section of the deployment.
            folder: of the deployment's files.
            kept_in: prefixes of backups, which keep schemas beside them.
        """
        settings = _Settings(group=group, kafka=kafka, registry=registry, store=store, kept_in=tuple(kept_in))
        # Only what was declared: what is left out and what is set to its default may mean different things.
        return cls(settings.model_dump_json(exclude_unset=True, context=REVEALED), str(folder))


class _Settings(Strict):
    group: LakeGroup
    kafka: Kafka
    registry: Registry | None
    store: StoreSettings
    kept_in: tuple[str, ...] = ()


def work(place: TaskPlace, task: Task, run: RunTask = run_task) -> Outcome:
    """`run` a task here, with local files in a folder that nobody else has and nobody misses.

    An error that is none of ours stops the partition, as trying again gives the same: it is told as `Terminal`. What
    this host refuses (room on its disk, open files) may pass, or another host takes the task: `Transient`.
    """
    try:
        shop = _workshop(place)
        with task_folder() as folder:
            return run(task, TaskContext(shop.store, shop.log, shop.logics(task), folder, SystemClock(), shop.schemas))
    except LyrebirdError as error:
        return Outcome(task, None, (), error)
    except OSError as error:
        LOGGER.exception("this host refuses a task what it needs")
        tp = task.range.tp
        refused = Transient(
            "the host of a task refuses what it needs",
            system="host",
            topic=tp.topic,
            partition=tp.partition,
            host=socket.gethostname(),
            reason=str(error),
            fix="Is there room on its disk? The range is tried again.",
        )
        return Outcome(task, None, (), refused)
    except Exception as error:
        LOGGER.exception("a task failed")
        tp = task.range.tp
        told = Terminal(
            "a task failed with an error that it should not have",
            topic=tp.topic,
            partition=tp.partition,
            first=task.range.head,
            reason=f"{type(error).__name__}: {error}",
            fix="See the trace in the worker's log; is it a parser class of your own?",
        )
        return Outcome(task, None, (), told)


class _Workshop:
    """What the tasks of one group share in a process. Files of processes that were killed here are removed first."""

    def __init__(self, place: TaskPlace) -> None:
        sweep()
        settings = _Settings.model_validate_json(place.settings)
        self.store = store_of(settings.store)
        self.log = KafkaRanges(settings.kafka.bootstrap, settings.kafka.options)
        self._group = settings.group
        registry = ConfluentRegistry(settings.registry) if settings.registry else None
        self.schemas: SchemaKeeper | None = None
        patient: SchemaRegistry | None = None
        if registry is not None:
            kept = KeptRegistry(registry, self.store, settings.kept_in)
            patient = PatientRegistry(kept, SystemClock(), self._group.unknown_schema_s)
            if self._group.kind == "backup":
                self.schemas = SchemaKeeper(self.store, self._group.prefix, registry, SystemClock())
        self._parser_context = ParserContext(Path(place.folder), patient)
        self._logics: dict[str, CutLogics] = {}

    def logics(self, task: Task) -> CutLogics:
        topic = task.range.tp.topic
        if topic not in self._logics:
            self._logics[topic] = logics_of(task.group, self._group, topic, self._parser_context)
        return self._logics[topic]


@lru_cache(maxsize=8)
def _workshop(place: TaskPlace) -> _Workshop:
    return _Workshop(place)
