"""The parameters of runs of the DAG lake_maintenance, and of `lyrebird table maintain`."""

from __future__ import annotations

from include.settings.run import RunParams, knob

__all__ = ["MaintenanceRun"]


class MaintenanceRun(RunParams):
    """One run over the table of a topic, or over all."""

    topic: str = knob("Whose table is maintained; all when left out.", "", option="TOPIC")
    dry_run: bool = knob("Say what would be removed.", False, param=None)
