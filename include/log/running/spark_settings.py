"""Spark's settings for applications that run small batches for ever. Plain values: nothing here knows Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["CHECKPOINT", "TALKATIVE", "driver_options", "settings"]

TALKATIVE: Final = (
    # Warns of every batch that takes longer than the trigger: under load that is all of them, and metrics show it.
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor",
    # Warns of every read but the first, as each registers the log's format anew.
    "org.apache.spark.sql.execution.datasources.DataSourceManager",
)

_MANAGER: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
# Of a stream's session alone: what reads Hadoop's files elsewhere expects its file system with checksums.
CHECKPOINT: Final = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}

_DEFAULTS: Final = {
    "spark.log.level": "WARN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.speculation": "false",
    "spark.locality.wait": "0",
    "spark.python.worker.reuse": "true",
    "spark.sql.session.timeZone": "UTC",
    # Micro-batches are small: re-planning by statistics and many shuffle tasks cost more than they bring.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stopTimeout": "60000",
    # Without native libraries Hadoop forks `chmod` and `readlink` for each file that it makes by a FileContext, and
    # checksums are files too: on a busy machine 100 ms of each batch. The checkpoint is disposable.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": _MANAGER,
}


def settings(
    application: str,
    *,
    given: Mapping[str, str],
    outside: Mapping[str, str],
    master: str,
    root: Path,
    classes: str = "",
) -> dict[str, str]:
    """All settings of a session.

    Args:
        application: the name that Spark shows.
        given: the application's own; they win over the defaults here.
        outside: what spark-submit was given; it wins over everything.
        master: used when neither of them names one.
        root: where `include` lies on this machine, a folder or a zip. Spark plans a stream in a process of its own
            beside the driver that does not look into --py-files; workers on other machines do.
        classes: the archive of Spark's classes that a driver on this machine maps, if there is one.
    """
    wanted = {"spark.app.name": application, "spark.master": master, **_DEFAULTS}
    if root.exists():
        wanted["spark.executorEnv.PYTHONPATH"] = str(root)
    wanted |= {**given, **outside}
    if wanted["spark.master"].startswith("local"):
        # Nobody beside this machine has to reach the driver.
        wanted.setdefault("spark.driver.host", "127.0.0.1")
        wanted.setdefault("spark.driver.bindAddress", "127.0.0.1")
        if not wanted["spark.master"].startswith("local-cluster"):
            # Other accounts of the machine reach the driver's port, too. Here alone Spark makes the secret itself.
            wanted.setdefault("spark.authenticate", "true")
        wanted.setdefault("spark.driver.extraJavaOptions", driver_options(classes))
    return wanted


def driver_options(classes: str = "") -> str:
    """Options of the JVM of a driver that runs its tasks itself.

    Driver and tasks share one small JVM with short tasks: the optimising compiler and parallel collectors would take
    more of a small machine's cores than they give back. `classes`: an archive of Spark's classes, which a JVM that
    cannot use it leaves alone.
    """
    options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError"
    return f'{options} "-XX:SharedArchiveFile={classes}" -Xlog:cds=off' if classes else options
