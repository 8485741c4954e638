"""What ends an application of the lake, left in its run folder for the mail: from its first line on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from include.clock import SystemClock
from include.errors import Restart, Terminal
from include.lake.incidents.incidents import LakeIncidents
from include.metrics.progress import GAVE_UP, RunFolder
from include.settings.environment import state_folder

__all__ = ["ending_told"]


@contextmanager
def ending_told(application: str, *, again: bool = False) -> Iterator[None]:
    """Leave why the work inside ended in gave-up.json, where a restart would meet the same; raises it again.

    `again`: the application is run on a schedule. What the same run has left there already stays.
    """
    try:
        yield
    except Terminal as error:
        if not isinstance(error, Restart):
            clock = SystemClock()
            folder = RunFolder.from_environment(application, state_folder(), clock)
            if not folder.kept(GAVE_UP):
                folder.give_up(LakeIncidents(application, folder, clock).on_end(error, again=again).to_json())
        raise
