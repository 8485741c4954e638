"""A job over a file of elements on servers of its own, by what runs live (`eventtime replay --engine spark`)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import yaml

from include.clock import Clock
from include.eventtime.model.process import Process
from include.eventtime.replay import JobReplay, ReplayLine, require_keys
from include.eventtime.rerun.rerun_spark import replay_file
from include.local.sections import sections
from include.local.stack import Stack
from include.log.running.batches_spark import session
from include.settings.connections import StoreSettings
from include.settings.deployment import Deployment
from include.store.s3 import store_of

__all__ = ["replay_on_spark"]

_NAME: Final = "replay"


def replay_on_spark(
    process: Process[Any],
    lines: Sequence[ReplayLine],
    clock: Clock,
    *,
    say: Callable[[str], None] = lambda _line: None,
    tell: Callable[[int], None] = lambda _watermark: None,
    **how: Any,
) -> JobReplay:
    """Run a job over these lines; servers and all their files are gone when this returns.

    Args:
        process: the job.
        lines: of the file.
        clock: for waiting.
        say: hears of what is started.
        tell: hears of the watermark (µs) after each batch.
        how: as `replay_file` has it.

    Raises:
        SettingsError: as `replay`, mostly before anything starts.
        Terminal: a server ended.
        Transient: a server does not answer.
    """
    require_keys(process, lines)
    if not lines:
        return JobReplay()
    with tempfile.TemporaryDirectory(prefix="lyrebird-replay-") as name:
        stack = Stack(Path(name) / "stack", free_ports=True, clock=clock, say=say)
        try:
            deployment = _deployment(Path(name) / "deployment", stack.up(["kafka", "registry", "s3"]))
            with closing(store_of(deployment.one("store", StoreSettings))) as store:
                store.ensure_bucket()
            say("Spark starts")
            spark = session("eventtime_replay")
            try:
                return replay_file(spark, deployment, Path(name) / "state", process, lines, tell, **how)
            finally:
                spark.stop()
        finally:
            stack.down()


def _deployment(folder: Path, env: Mapping[str, str]) -> Deployment:
    """Deployment files that say where these servers are."""
    folder.mkdir()
    (folder / "all.yaml").write_text(yaml.safe_dump(sections(env, _NAME)), encoding="utf-8")
    return Deployment.load(folder)
