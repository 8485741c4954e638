"""A rebuild on Spark: each range is a job of one task, so that an executor that is lost costs its ranges alone."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

from include.index.deployed import DeployedIndex
from include.index.generations.rebuild.deployed import carry_out
from include.index.generations.rebuild.fill import FillAnswer, lost_range
from include.index.generations.rebuild.plan import RebuildPlan
from include.index.generations.rebuild.run import ProgressReporter, RebuiltGeneration
from include.index.worker import NumberedRange, WorkerPlan, work_off_range
from include.log.running.batches_spark import session
from include.log.running.job_pool_spark import SparkJobPool

__all__ = ["rebuild_by_spark", "spark_pool"]


def spark_pool(spark: SparkSession, plan: WorkerPlan) -> SparkJobPool[NumberedRange, tuple[int, FillAnswer]]:
    """Where ranges of `plan` are worked off."""
    return SparkJobPool(spark, partial(work_off_range, plan), lost_range)


def rebuild_by_spark(
    on: DeployedIndex, plan: RebuildPlan, tell: ProgressReporter, *, within_s: float
) -> RebuiltGeneration:
    """Carry out `plan`, its ranges on as many cores as Spark has; raises as `run.rebuild`."""
    spark = session("rebuild_index")
    try:
        return carry_out(on, plan, partial(spark_pool, spark), tell, within_s=within_s)
    finally:
        spark.stop()
