"""The two ways to run a Spark application: for ever (supervised, deferred), or to its own end (in the task).

Both take master and defaults from the connection `spark_default`, through the provider's hook (spark.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from include.settings.environment import PROJECT_ROOT
from supervision.airflow_conf import jobs_pool
from supervision.launch import application_environment
from supervision.operator import StreamingOperator
from supervision.spark import CONNECTION, LeashedSparkHook, ProjectSparkHook

__all__ = ["SparkJobOperator", "SparkStreamingOperator"]


class SparkStreamingOperator(StreamingOperator):
    """A streaming application under the guardian, started by spark-submit.

    Args:
        entry: the program, relative to the project.
        arguments: after it (templated).
        conf: Spark configuration, over the connection's.
        memory: heap of the driver and of each executor, e.g. `512m` (templated).
        cores: how many cores it takes of a cluster.
        kwargs: `StreamingOperator`'s.
    """

    template_fields: Sequence[str] = (*StreamingOperator.template_fields, "arguments", "memory")

    def __init__(
        self,
        *,
        entry: str,
        arguments: Sequence[str] = (),
        conf: Mapping[str, Any] | None = None,
        memory: str = "512m",
        cores: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.entry = entry
        self.arguments = arguments
        self.conf = dict(conf or {})
        self.memory = memory
        self.cores = cores

    def command(self, names: dict[str, str]) -> list[str]:
        """The spark-submit command for the connection's master as it is now."""
        hook = ProjectSparkHook(
            application_name=self.application,
            arguments=self.arguments,
            conf=self.conf,
            memory=self.memory,
            cores=self.cores,
            names=names,
        )
        return hook.argv(PROJECT_ROOT / self.entry)


class SparkJobOperator(SparkSubmitOperator):
    """The provider's operator for work that ends by itself; its processes end when its task is gone.

    Such work may be run again from its start. Arguments as `SparkSubmitOperator`; `cores` as above, and `name`,
    `driver_memory`, `application_args` and `conf` mean the same. `pool` is the pool of jobs where none is given; of a
    mapped task Airflow reads what `partial` was given alone.
    """

    def __init__(self, *, cores: int = 1, conn_id: str = CONNECTION, pool: str | None = None, **kwargs: Any) -> None:
        super().__init__(conn_id=conn_id, pool=pool or jobs_pool(), **kwargs)
        self.cores = cores

    def _get_hook(self) -> LeashedSparkHook:
        return LeashedSparkHook(
            application_name=self.name or self.task_id,
            arguments=[str(argument) for argument in self.application_args or ()],
            conf=self.conf or {},
            memory=self._driver_memory or "512m",
            cores=self.cores,
            names=application_environment(),
            conn_id=self._conn_id or CONNECTION,
        )
