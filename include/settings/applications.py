"""Section `applications`: what runs for ever under Airflow. One entry, one DAG, one run folder."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from include.settings.deployment import Strict
from include.settings.run import RunParams, knob

__all__ = ["Alerts", "Application", "Restarts", "StreamRun"]

_Memory = Annotated[str, Field(pattern=r"^[1-9][0-9]*[mg]$")]


class Restarts(Strict):
    """How often an application is started again by itself when it crashes or stands still."""

    most: int = Field(default=5, ge=0, description="restarts within the window")
    window_s: float = Field(default=600, gt=0, description="length of the window, seconds in which it makes progress")
    then_every_s: float = Field(
        default=600, ge=60, description="where these did not help, it is tried again so often, seconds"
    )


class Application(Strict):
    """Section `applications`: one streaming application."""

    entry: str = Field(pattern=r"^spark_apps/[a-z0-9_]+\.py$", description="its program, relative to the project")
    kind: Literal["spark"] = Field(default="spark", description="how it is started: by spark-submit")
    spark: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Spark configuration, over that of the connection spark_default"
    )
    memory: _Memory = Field(default="512m", description="heap of its driver, and of each executor")
    cores: int = Field(default=1, ge=1, description="cores that it takes of a cluster; local[n] has its n")
    restarts: Restarts = Field(default_factory=Restarts)
    stall_after_s: float = Field(default=120, gt=0, description="without progress for so long it is started again")
    start_within_s: float = Field(default=300, gt=0, description="the same until its first report after a start")
    grace_s: float = Field(default=60, gt=0, description="what it gets to end cleanly")
    lease_ttl_s: float = Field(default=300, ge=30, description="how long it runs while Airflow is away")
    topics: list[str] = Field(default_factory=list, description="the declared topics that it hosts")


class StreamRun(RunParams):
    """One run of an application's DAG; what is left out is as the deployment files say."""

    memory: _Memory = knob("Heap of the driver, and of each executor on a cluster, for this run: 512m, 2g.", "512m")


class Alerts(Strict):
    """Section `alerts`: who is told of failures and retries."""

    to: list[str] = Field(min_length=1, description="mail addresses")
    from_: str = Field(alias="from", description="the sender's address")
