"""The supervisor step by step over real processes, with a clock that the test moves."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from include.clock import ManualClock, SystemClock
from include.local import process
from include.local.process import Launch
from include.local.records import Records
from include.local.supervisor import Supervisor

# Dies at once as long as something is in its way.
PROGRAM = "import pathlib, sys, time\nif pathlib.Path(sys.argv[1]).exists(): sys.exit(1)\ntime.sleep(600)\n"


def test_what_was_given_up_is_tried_again_slowly_and_runs_when_the_way_is_free(tmp_path: Path) -> None:
    records, clock, way = Records(tmp_path), ManualClock(), tmp_path / "in-the-way"
    way.touch()
    log = str(records.log("server"))
    records.ask(Launch("server", (sys.executable, "-c", PROGRAM, str(way)), {}, str(tmp_path), log))
    supervisor = Supervisor(records, clock)

    def step_until(state: str, advance_s: float = 0.5) -> None:
        until_s = time.monotonic() + 60
        while (seen := records.read("server")) is None or seen.state != state or (state == "running" and way.exists()):
            assert time.monotonic() < until_s, seen
            supervisor.step()
            clock.advance(advance_s)
            time.sleep(0.02)

    try:
        step_until("gave up")
        given_up = records.read("server")
        assert given_up is not None
        assert given_up.next_try_us > clock.now_us() + 200_000_000
        supervisor.step()
        assert records.read("server") == given_up
        way.unlink()
        clock.advance(301)
        step_until("running")
        seen = records.read("server")
        assert seen is not None
        assert seen.is_alive
        assert seen.deaths == given_up.deaths
    finally:
        seen = records.read("server")
        if seen is not None and seen.running is not None:
            process.stop([(seen.running, 0.0)], SystemClock())
            supervisor.step()  # reaps it


def test_the_log_of_a_server_that_runs_is_kept_short(tmp_path: Path) -> None:
    records, clock = Records(tmp_path), ManualClock()
    supervisor = Supervisor(records, clock)
    supervisor.step()
    log = records.log("kafka")
    log.parent.mkdir()
    with log.open("wb") as file:
        file.truncate(21 * 1024 * 1024)
    supervisor.step()
    assert log.stat().st_size > 0
    clock.advance(61)
    supervisor.step()
    assert log.stat().st_size == 0
    assert log.with_name("kafka.old.log").stat().st_size == 20 * 1024 * 1024


class StoppingClock(ManualClock):
    """Asks the supervisor to end at its tenth wait."""

    def __init__(self, records: Records) -> None:
        super().__init__()
        self.records, self.waits = records, 0

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.waits += 1
        if self.waits == 10:
            self.records.stop_file.touch()


def test_a_database_whose_folder_is_gone_keeps_no_other_server_from_being_started(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.supervisor.mkdir()
    words, log = (sys.executable, "-c", "import time; time.sleep(600)"), str(records.log("server"))
    records.ask(Launch("mariadb", words, {}, str(tmp_path / "gone"), log))
    records.ask(Launch("server", words, {}, str(tmp_path), log))
    supervisor = Supervisor(records, StoppingClock(records))
    try:
        supervisor.run()
        seen = records.read("server")
        assert seen is not None
        assert seen.is_alive
    finally:
        seen = records.read("server")
        if seen is not None and seen.running is not None:
            process.stop([(seen.running, 0.0)], SystemClock())
            supervisor.step()  # reaps it
