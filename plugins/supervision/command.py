"""A `lyrebird` command as a task: short work that blocks, and ends with its task."""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from include.errors import Transient
from include.lake.backfill.run_params import NOTHING_STATUS
from include.settings.environment import PROJECT_ROOT
from supervision.airflow_conf import jobs_pool
from supervision.first_tasks import lyrebird_argv
from supervision.launch import application_environment
from supervision.leash import leashed
from supervision.refusing import NoRetry, refuses

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

__all__ = ["LyrebirdOperator"]


class LyrebirdOperator(BaseOperator):
    """Runs `lyrebird <arguments>` and relays its output to the task's log.

    Args:
        arguments: of the command (templated).
        pool: None: the pool of jobs.
        skips: whether the task is skipped where a backfill finds nothing to make again (templated); else it fails.

    Raises:
        AirflowSkipException: see `skips`.
        GaveUp: the command says that asking again gives the same.
        Transient: the status was another one than 0; the message is the command's own last line.
    """

    template_fields: Sequence[str] = ("arguments", "skips")

    def __init__(
        self, *, arguments: Sequence[str], skips: bool = False, pool: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(pool=pool or jobs_pool(), **kwargs)
        self.arguments = arguments
        self.skips = skips
        self._child: subprocess.Popen[str] | None = None

    def execute(self, context: Context) -> str:
        """Returns the last line of the output."""
        del context
        arguments = [str(argument) for argument in self.arguments]
        self.log.info("lyrebird %s", " ".join(arguments))
        last: deque[str] = deque([""], maxlen=1)
        with subprocess.Popen(  # noqa: S603 - the command of a DAG file
            leashed(lyrebird_argv(arguments)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=application_environment(),
            cwd=PROJECT_ROOT,
        ) as child:
            self._child = child
            for line in child.stdout or ():
                self.log.info("%s", line.rstrip())
                if line.strip():
                    last.append(line.strip())
        said = f"{last[0].removeprefix('error: ')} (lyrebird {' '.join(arguments)})"
        if child.returncode == NOTHING_STATUS and self.skips:
            raise AirflowSkipException(said)
        if child.returncode == NOTHING_STATUS or refuses(child.returncode, last[0]):
            raise NoRetry(said)
        if child.returncode != 0:
            raise Transient(said, status=child.returncode)
        return last[0]

    def on_kill(self) -> None:
        """End the command and all that it started."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
