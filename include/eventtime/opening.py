"""From a declared job to one that is ready to run: its topics looked up, its schemas registered, its runner made."""

from __future__ import annotations

from dataclasses import dataclass

from include.errors import LyrebirdError
from include.eventtime.config.definition import DeployedJob
from include.eventtime.outputs import Ids, key_schema, value_schema
from include.eventtime.runner import JobRunner
from include.eventtime.verdicts import Verdicts
from include.log import topics
from include.log.access import LogAccess
from include.log.publishing.dead_letter import DeadLetterLimit
from include.log.publishing.publisher import Publisher

__all__ = ["JobInputMissing", "OpenedJob", "opened_job"]


class JobInputMissing(LyrebirdError):
    """Something that a job reads is missing still: look again later."""


@dataclass(frozen=True)
class OpenedJob:
    """A job whose publisher is open.

    Args:
        publisher: to be closed.
        runner: carries its batches out.
        ids: output → ids of its schemas.
        cut_at: resolved topics that batches end at; none where no source needs one.
        start: topic → partition → next offset.
    """

    publisher: Publisher
    runner: JobRunner
    ids: dict[str, Ids]
    cut_at: tuple[str, ...]
    start: dict[str, dict[int, int]]


def opened_job(
    job: DeployedJob,
    application: str,
    access: LogAccess,
    *,
    ids: dict[str, Ids] | None = None,
    verdicts: Verdicts | None = None,
) -> OpenedJob:
    """Look everything up, register the outputs' schemas and open the publisher.

    Args:
        job: what is declared.
        application: that hosts it.
        access: to log and registry.
        ids: of the outputs' schemas, where a replay writes as the live run did; else they are registered.
        verdicts: see `JobRunner`.

    Raises:
        NotThereYet: a source is missing: ask again later.
        Terminal: the state has other buckets, or a topic is not as it is declared.
        Transient: a server does not answer.
    """
    entry = job.entry
    for source in entry.sources:
        if access.admin.describe(source.topic) is None:
            # Its partitions are part of the watermark from the beginning.
            raise JobInputMissing("a topic that the job reads is not there yet", job=job.name, topic=source.topic)
    ids = ids or _registered(job, access)
    publisher = Publisher(
        job.topic,
        application,
        (),
        [source.topic for source in entry.sources],
        own=JobRunner.specs(job, application),
        open_writer=access.open_writer,
        finish=access.finish,
        reader=access.reader,
        admin=access.admin,
        clock=access.clock,
    )
    first = next(output for output in entry.outputs.values() if output.topic == job.topic)
    runner = JobRunner(job, publisher, access.reader, DeadLetterLimit(), access.clock, verdicts)
    try:
        publisher.ensure(first.partitions, compacted=first.compacted)
        runner.open()
    except BaseException:
        publisher.close()
        raise
    start: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in publisher.committed.items():
        start.setdefault(topic, {})[partition] = offset
    cut_at = [topics.resolved_of(source.topic) for source in entry.sources if source.idle == "resolved"]
    return OpenedJob(publisher, runner, ids, tuple(dict.fromkeys(cut_at)), start)


def _registered(job: DeployedJob, access: LogAccess) -> dict[str, Ids]:
    key = key_schema(job.entry.sources[0].key, job.process.key)
    return {
        name: (
            access.registry.register(f"{output.topic}-key", key),
            access.registry.register(f"{output.topic}-value", value_schema(job.process.outputs[name])),
        )
        for name, output in job.entry.outputs.items()
    }
