"""The parameters of a run of the DAG eventtime_replay."""

from __future__ import annotations

import datetime as dt
from typing import Final

from include.errors import SettingsError
from include.settings.run import DATE, NamesOnce, RunParams, every, knob

__all__ = ["ReplayRun"]

_MOST_DAYS: Final = 366


class ReplayRun(RunParams):
    """One replay of days of jobs."""

    jobs: NamesOnce = every("job", "--job", "eventtime")
    since: str = knob(
        "First day, UTC; empty: yesterday, or the day of a run of Airflow's own backfill.",
        "",
        title="From",
        param="from",
        schema=DATE,
    )
    until: str = knob("Last day, included. Default: the first.", "", title="To", param="to", schema=DATE)

    def days(self, default: dt.date) -> list[dt.date]:
        """Those that are asked for, `default` without any; raises `SettingsError` for what are none."""
        try:
            first, last = (dt.date.fromisoformat(text) if text else None for text in (self.since, self.until))
        except ValueError as error:
            raise SettingsError("not a day", path="params", reason=str(error), allowed="such as 2026-11-02") from error
        if first is None:
            if last is not None:
                raise SettingsError("a last day without a first one", path="params.from", fix="Give the first day too.")
            return [default]
        last = last or first
        count = (last - first).days + 1
        if not 1 <= count <= _MOST_DAYS:
            raise SettingsError(
                "not a range of days", path="params.to", got=f"{first} to {last}", allowed=f"1 to {_MOST_DAYS} days"
            )
        return [first + dt.timedelta(days=number) for number in range(count)]
