"""A day's replay in Spark: the live job's tasks over the day's slices, and what came of it beside what was live."""

from __future__ import annotations

import functools
import itertools
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from include.clock import Clock, iso
from include.errors import InvalidRecord, SettingsError, Terminal
from include.eventtime.committed import state_place
from include.eventtime.config.definition import declared_jobs
from include.eventtime.jobs_spark import carry_out_on
from include.eventtime.model.process import Process
from include.eventtime.replay import JobReplay, ReplayLine
from include.eventtime.rerun.day import (
    NotReached,
    day_to_replay,
    patient,
    remove_replay,
    replay_job,
    replayed_day,
    take_savepoint,
)
from include.eventtime.rerun.file import file_job, replayed_file, written
from include.eventtime.rerun.report import ReplayReport
from include.eventtime.restored import MovedSources, RestoredSource
from include.eventtime.task import STAGE
from include.log import topics
from include.log.access import log_access
from include.log.planning.survey import KafkaSurvey
from include.log.registry.confluent import ConfluentRegistry
from include.record.codec import Decoder
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.deployment import Deployment
from include.settings.environment import state_folder
from include.settings.names import require_known
from include.store.s3 import store_of

__all__ = ["replay_file", "shown_by", "verify", "verify_days"]


def verify(
    spark: SparkSession,
    deployment: Deployment,
    name: str,
    day: str,
    tell: Callable[[int, int, int], None],
    restored: Mapping[str, RestoredSource] | None = None,
    patience_us: int = 0,
) -> ReplayReport:
    """Replay a day of a job and compare it with what was live; what the replay wrote stays where they differ.

    Args:
        spark: made by `log.running.batches_spark.session`.
        deployment: with the job.
        name: of the job.
        day: such as 2026-11-02.
        tell: hears of (begin, watermark, end), µs, after each batch.
        restored: sources that are read from where they were restored to.
        patience_us: by how much longer than the live run it waits for what comes late.

    Raises:
        NotReached: the live run has not come to the day.
        SettingsError: there is no such job or day.
        Terminal: the day cannot be replayed any more.
    """
    jobs = declared_jobs(deployment)
    require_known(name, jobs, "no job of this name is declared")
    job, kafka, elsewhere = (
        patient(jobs[name], patience_us),
        deployment.one("kafka", Kafka),
        MovedSources(restored or {}),
    )
    for topic in elsewhere.sources:
        require_known(topic, [each.topic for each in job.entry.sources], "the job has no such source")
    attempt = f"{day}-{uuid.uuid4().hex[:6]}"
    replay_state = state_place(replay_job(job, attempt).topic, state_folder())
    with (
        log_access(kafka, deployment.one("registry", Registry)) as access,
        closing(store_of(deployment.one("store", StoreSettings))) as store,
    ):
        if access.admin.describe(topics.state(job.topic)) is None:
            raise NotReached(
                "the job has never run", job=name, fix=f"Start the DAG stream_{job.entry.application} in Airflow."
            )
        chosen_day = day_to_replay(job, access.reader, day, elsewhere)
        remove = functools.partial(remove_replay, job, attempt, access, store, replay_state, elsewhere)
        try:
            if chosen_day.savepoint is not None:
                live = state_place(job.topic, state_folder())
                take_savepoint(chosen_day.savepoint, store, STAGE, live, replay_state)
            report = replayed_day(
                job,
                chosen_day,
                attempt,
                access,
                KafkaSurvey(kafka.bootstrap, dict(kafka.options)),
                lambda again, opened: carry_out_on(spark, deployment, again, opened, elsewhere.declared(job)),
                lambda watermark: tell(chosen_day.after, watermark, chosen_day.until),
                elsewhere,
                patience_us,
            )
        except BaseException:
            remove()
            raise
        finally:
            shutil.rmtree(Path(replay_state.folder), ignore_errors=True)
        if report.clean:
            remove()
        return report


def verify_days(
    spark: SparkSession, deployment: Deployment, names: Sequence[str], days: Sequence[str], clock: Clock
) -> Iterator[dict[str, Any]]:
    """Replay these days of these jobs, one after the other.

    Gives each report as `Report.to_json` has it, with `at`, `took_s` (seconds) and `said` (lines for a person); with
    `error` instead, where a day cannot be replayed, and `waits`: it may be, once the live run has come to it.

    Raises:
        SettingsError: there is no such job.
        Transient: a server does not answer.
    """
    shown = shown_by(deployment.one("registry", Registry))
    for name in names:
        require_known(name, declared_jobs(deployment), "no job of this name is declared")
    for name, day in itertools.product(names, days):
        begun_s, told = clock.monotonic_s(), {"job": name, "day": day, "at": iso(clock.now_us())}
        try:
            report = verify(spark, deployment, name, day, lambda *_: None)
        except (SettingsError, Terminal) as error:
            found: dict[str, Any] = {"clean": False, "error": str(error), "waits": isinstance(error, NotReached)}
        else:
            found = report.to_json(shown)
            found["said"] = report.lines(found["first"])
        yield {**told, **found, "took_s": round(clock.monotonic_s() - begun_s, 1)}


def replay_file(
    spark: SparkSession,
    deployment: Deployment,
    state: Path,
    process: Process[Any],
    lines: Sequence[ReplayLine],
    tell: Callable[[int], None],
    *,
    bound_us: int,
    batch: int,
    ideal: bool = False,
    open_end: bool = False,
    fire_all: bool = False,
) -> JobReplay:
    """`eventtime.replay.replay` by what runs live: log, registry and object store of the deployment, tasks on Spark.

    Args:
        spark: made by `log.running.batches_spark.session`.
        deployment: where the servers are, which nobody uses yet.
        state: folder of the buckets that workers have open.
        process: the job.
        lines: of the file.
        tell: hears of the watermark (µs) after each batch.
        bound_us: see `replay`.
        batch: most elements of a batch.
        ideal: see `replay`.
        open_end: see `replay`.
        fire_all: see `replay`.

    Raises:
        SettingsError: as `replay`.
        Transient: a server does not answer.
    """
    job, kafka = file_job(process, lines, bound_us=bound_us, batch=batch, ideal=ideal), deployment.one("kafka", Kafka)
    with log_access(kafka, deployment.one("registry", Registry)) as access:
        elsewhere = written(lines, access)
        return replayed_file(
            job,
            lines,
            elsewhere,
            access,
            KafkaSurvey(kafka.bootstrap, dict(kafka.options)),
            lambda again, opened: carry_out_on(spark, deployment, again, opened, elsewhere.declared(job), state),
            tell,
            ideal=ideal,
            open_end=open_end,
            fire_all=fire_all,
        )


def shown_by(registry: Registry) -> Callable[[bytes | None], Any]:
    """Keys and values of outputs as JSON has them; bytes that nobody can read as hex."""
    from include.record.json.body import plain

    decode = Decoder(ConfluentRegistry(registry).schema)

    def shown(data: bytes | None) -> Any:
        try:
            return None if data is None else plain(decode(data))
        except InvalidRecord:
            return (data or b"").hex()

    return shown
