"""A backfill on Spark: each range of cuts is a job of one task, beside whatever the live groups do elsewhere."""

from __future__ import annotations

from include.clock import SystemClock
from include.lake.backfill.comparison import BackfillComparison
from include.lake.backfill.deployed import DeployedBackfill, Tell, perform
from include.lake.backfill.request import BackfillRequest
from include.lake.backfill.rewrite import rewrite
from include.lake.groups_spark import task_pool
from include.log.running.batches_spark import session
from include.settings.deployment import Deployment

__all__ = ["backfill_by_spark"]


def backfill_by_spark(deployment: Deployment, request: BackfillRequest, tell: Tell) -> BackfillComparison:
    """Plan, write and compare; raises as `perform`, and what a plan refuses before Spark is started."""
    clock = SystemClock()
    deployed = DeployedBackfill.of(deployment, clock)
    plan = deployed.plan(request)
    spark = session("backfill_lake")
    try:
        pool = task_pool(spark, deployed.place(plan.asked), rewrite)
        try:
            return perform(deployed.bucket, plan, request.run, pool, clock, tell)
        finally:
            pool.close()
    finally:
        spark.stop()
