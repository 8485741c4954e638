"""The section `eventtime`: what is wrong in it is told with its place before anything runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from include.errors import SettingsError
from include.eventtime.config.definition import declared_jobs
from include.eventtime.jobs.offline import Status
from include.eventtime.model.process import Context, Element, Process
from include.settings.deployment import Deployment

pytestmark = pytest.mark.unit

JOB = """
applications:
  process_scooters: {entry: spark_apps/process_events.py, topics: [scooters.status, scooters.events]}
eventtime:
  scooter_status:
    application: process_scooters
    process: include.eventtime.jobs.offline.Offline
    sources:
      - {topic: telemetry.tracks, key: device, time: {field: at, unit: ms}}
    settings: {timeout: 20m}
    outputs:
      status: {topic: scooters.status, compacted: true}
      events: {topic: scooters.events}
"""


class Clocked(Process[Any]):
    outputs: ClassVar = {"status": Status, "events": Status}

    def on_element(self, element: Element, ctx: Context[Any]) -> None:
        ctx.set_timer("x", time.time_ns() // 1000)


class Floating(Clocked):
    key = float


class Holding(Process[Any]):
    state = object


def declared(folder: Path, text: str) -> Deployment:
    (folder / "jobs.yaml").write_text(text)
    return Deployment.load(folder, {})


def test_a_job_comes_with_its_process_and_settings(tmp_path: Path) -> None:
    job = declared_jobs(declared(tmp_path, JOB))["scooter_status"]
    assert job.process.settings.timeout == 1_200_000_000
    assert job.entry.sources[0].bound_us == 5_000_000
    assert job.entry.outputs["status"].compacted


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("process_scooters\n    process", "nobody\n    process", "path='eventtime.scooter_status.application'"),
        ("offline.Offline", "offline.Online", "no such process .*path='eventtime.scooter_status.process'"),
        ("offline.Offline", "offline.Seen", "this is no process"),
        ("timeout: 20m", "timeout: 20", "path='eventtime.scooter_status.settings.timeout'"),
        ("timeout: 20m", "timeout: 20 m", "is no duration"),
        ("timeout: 20m", "silence: 20m", "unknown key .*allowed=\\['timeout'\\]"),
        ("      events: {topic: scooters.events}\n", "", "not the outputs of the process"),
        ("{topic: scooters.events}", "{topic: scooters.status}", "names a topic twice"),
        ("{topic: scooters.events}", "{topic: telemetry.tracks}", "cannot read what it writes"),
        ("{topic: scooters.events}", "{topic: scooters.other}", "Add scooters.other to its `topics`"),
        ("{topic: scooters.events}", "{topic: scooters.late}", "may not end in this word"),
        ("unit: ms}", "unit: minutes}", "path='eventtime.scooter_status.sources.0.time.unit'"),
        ("unit: ms}}", "unit: ms}, idle: resolved}", "only a captured table has resolved records"),
        ("include.eventtime.jobs.offline.Offline", f"{__name__}.Clocked", "a handler would make a replay differ"),
        ("include.eventtime.jobs.offline.Offline", f"{__name__}.Floating", "keys are texts or numbers"),
        ("include.eventtime.jobs.offline.Offline", f"{__name__}.Holding", "a type of the process cannot be kept"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = JOB.replace(old, new)
    if "Clocked" in new or "Floating" in new or "Holding" in new:
        text = text.replace("settings: {timeout: 20m}", "settings: {}")
    assert text != JOB
    with pytest.raises(SettingsError, match=message) as refused:
        declared_jobs(declared(tmp_path, text))
    assert refused.value.details["line"] > 0


def test_two_jobs_do_not_write_one_topic(tmp_path: Path) -> None:
    other = JOB[JOB.index("  scooter_status") :].replace("scooter_status", "others")
    with pytest.raises(SettingsError, match="two jobs of one application read one topic"):
        declared_jobs(declared(tmp_path, JOB + other))
    with pytest.raises(SettingsError, match="two jobs write one topic"):
        declared_jobs(declared(tmp_path, JOB + other.replace("telemetry.tracks", "telemetry.others")))
