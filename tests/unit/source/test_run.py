"""Sessions one after another: which end the run, which begin the next, what is told of an end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from include.clock import ManualClock
from include.errors import Fenced, LyrebirdError, Restart, SettingsError, Terminal, Transient
from include.policy.policy import TableFilter
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.database.preflight import ServerFinding, first_look
from include.source.definition import SourceDefinition
from include.source.ports import ResumePoint
from include.source.run import Capture, RunMode
from include.source.state.capture_state import CaptureState
from include.source.upstream import LiveServer

SOURCE = SourceDefinition(host="h", port=1, user="u", password=SecretStr("p"), databases=["shop"])
START = SourcePosition("mariadb", MariadbGtidSet(), BinlogPosition("bin.000001", 4), 0)
SPOILT = Terminal("an event fails its checksum", pos=7)


class Reporter:
    """Counts commits; keeps what ended the capture."""

    def __init__(self) -> None:
        self.commits = 0
        self.waited: list[LyrebirdError] = []
        self.end: Terminal | None = None

    def stop_requested(self) -> bool:
        return False

    def on_retry(self, error: LyrebirdError, _attempt: int) -> None:
        self.waited.append(error)

    def on_end(self, error: Terminal) -> None:
        self.end = error

    def on_server(self, _source: SourceDefinition) -> None:
        pass


class Scenario:
    """A capture whose sessions do what a list says: commit so often, then raise, or end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *sessions: tuple[int, LyrebirdError | None]) -> None:
        self.reporter, self.left = Reporter(), list(sessions)
        self.capture = Capture("shop", SOURCE, Any, ManualClock(1), self.reporter, between=lambda a, _b: a)  # type: ignore[arg-type]

        def once(_mode: RunMode, _tables: tuple[str, ...], _id: str) -> str:
            commits, error = self.left.pop(0)
            self.reporter.commits += commits
            if error is not None:
                raise error
            return "stopped"

        monkeypatch.setattr(self.capture, "_once", once)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scenario]:
    return lambda *sessions: Scenario(monkeypatch, *sessions)


def test_what_was_spoilt_on_its_way_is_read_again(scene: Callable[..., Scenario]) -> None:
    one = scene((5, SPOILT), (3, None))
    assert one.capture.run() == "stopped"
    assert one.reporter.waited == [SPOILT]
    assert one.reporter.end is None


@pytest.mark.parametrize("commits", [0, 4])
def test_what_is_the_same_at_the_second_look_ends_the_run_and_is_told(
    scene: Callable[..., Scenario], commits: int
) -> None:
    one = scene((5, SPOILT), (commits, SPOILT))
    with pytest.raises(Terminal, match="checksum"):
        one.capture.run()
    assert one.reporter.end is SPOILT


def test_another_refusal_without_progress_ends_the_run_too(scene: Callable[..., Scenario]) -> None:
    one = scene((5, SPOILT), (0, Terminal("the account lacks a privilege")))
    with pytest.raises(Terminal, match="privilege"):
        one.capture.run()


def test_a_start_that_is_refused_is_refused_at_once(scene: Callable[..., Scenario]) -> None:
    one = scene((0, Terminal("the source has no finished snapshot to go on from")))
    with pytest.raises(Terminal, match="no finished snapshot"):
        one.capture.run()
    assert one.reporter.waited == []


def test_looks_are_bounded_however_much_is_read_between_them(scene: Callable[..., Scenario]) -> None:
    one = scene(*((5, Terminal("spoilt", pos=pos)) for pos in range(9)))
    with pytest.raises(Terminal) as refused:
        one.capture.run()
    assert refused.value.details["pos"] == 3


def test_settings_that_are_wrong_get_no_second_look(scene: Callable[..., Scenario]) -> None:
    one = scene((5, SettingsError("no")))
    with pytest.raises(SettingsError):
        one.capture.run()
    assert isinstance(one.reporter.end, SettingsError)


def test_a_lost_answer_to_a_commit_begins_another_session(scene: Callable[..., Scenario]) -> None:
    lost = Restart("the answer to a commit is lost", system="kafka")
    one = scene((5, lost), (0, lost), (0, lost), (2, None))
    assert one.capture.run() == "stopped"
    assert one.reporter.waited == [lost] * 3


def test_a_snapshot_of_all_is_not_read_twice_by_itself(scene: Callable[..., Scenario]) -> None:
    one = scene((5, SPOILT))
    with pytest.raises(Terminal):
        one.capture.run("anew")


def test_a_transient_error_never_ends_a_capture_that_has_reached_its_servers(scene: Callable[..., Scenario]) -> None:
    one = scene(*[(0, Transient("away"))] * 4, (1, None))
    assert one.capture.run() == "stopped"
    assert len(one.reporter.waited) == 4


def test_a_capture_that_was_fenced_says_who_reads_now(
    scene: Callable[..., Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SourceDefinition] = []

    def dumps(source: SourceDefinition, _question: Any) -> tuple[int, str]:
        asked.append(source)
        return (1, "10.0.0.9:4711") if len(asked) < 3 else (2, "10.0.0.8:5000")

    monkeypatch.setattr("include.source.database.takeover.asked", dumps)
    one = scene((5, Fenced("another process has taken over (commit)", system="kafka", reason="PRODUCER_FENCED")))
    with pytest.raises(Fenced, match="start this one again") as refused:
        one.capture.run()
    assert refused.value.details["newest_reader"] == "10.0.0.8:5000"
    assert isinstance(one.reporter.end, Fenced)


def test_the_newest_of_our_dumps_is_the_newcomers() -> None:
    from include.source.database.takeover import newest_dump

    rows = [
        (9, "u", "h:9", None, "Query", 0, "", ""),
        (12, "u", "h:12", None, "Binlog Dump", 3, "", None),
        (7, "u", "h:7", None, "Binlog Dump GTID", 90, "", None),
    ]
    assert newest_dump(lambda _sql: rows) == (2, "h:12")
    assert newest_dump(lambda _sql: rows[:1]) == (0, "")


class Session:
    """One that has committed up to number 7, and loses its server."""

    version, begun = 7, True

    def __init__(self, *_: object) -> None:
        pass

    def stream(self) -> None:
        raise Transient("away", system="mysql")

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("newest", "sessions"), [(6, 3), (7, 3), (8, 1)])
def test_a_capture_that_was_away_does_not_fence_one_that_has_written_meanwhile(
    monkeypatch: pytest.MonkeyPatch, newest: int, sessions: int
) -> None:
    """A commit whose answer was lost may have happened (7) or not (6); 8 is another's."""
    begun: list[Session] = []

    def session(*values: object) -> Session:
        if len(begun) == 3:
            raise SettingsError("enough")
        begun.append(Session(*values))
        return begun[-1]

    class Log:
        def newest(self) -> ResumePoint:
            return ResumePoint(START, CaptureState(version=newest))

    monkeypatch.setattr("include.source.run.first_look", lambda _source: [])
    monkeypatch.setattr("include.source.run.second_look", lambda _source: [])
    monkeypatch.setattr(
        "include.source.run.LiveServer", lambda *_: SimpleNamespace(look=lambda _question: None, close=lambda: None)
    )
    monkeypatch.setattr("include.source.run.CaptureSession", session)
    monkeypatch.setattr("include.source.database.takeover.asked", lambda *_: (0, ""))
    reporter = Reporter()
    capture = Capture("shop", SOURCE, Log(), ManualClock(1), reporter, between=lambda a, _b: a)  # type: ignore[arg-type]
    with pytest.raises(Fenced if sessions == 1 else SettingsError):
        capture.run()
    assert len(begun) == sessions


def test_a_start_and_a_check_warn_that_nobody_verifies_a_far_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> Any:
        raise SettingsError("enough")

    monkeypatch.setattr("include.source.run.first_look", away)
    capture = Capture("shop", SOURCE, SimpleNamespace(), ManualClock(1), Reporter())  # type: ignore[arg-type]
    with caplog.at_level("WARNING"), pytest.raises(SettingsError):
        capture.run()
    assert "no certificate is looked at" in caplog.text
    for name in ("_variables", "gaps", "account", "_databases"):
        monkeypatch.setattr(f"include.source.database.preflight.{name}", lambda *_: [])
    monkeypatch.setattr("include.source.database.preflight.read_server", lambda _ask: None)
    monkeypatch.setattr("include.source.database.preflight.asked", lambda _source, question: question(None))
    (finding,) = first_look(SOURCE)
    assert (finding.level, "no certificate is looked at" in finding.problem) == ("warn", True)


@pytest.mark.parametrize("masked", [False, True])
def test_tables_are_looked_at_beside_the_stream_unless_a_column_must_not_leave(
    monkeypatch: pytest.MonkeyPatch, masked: bool
) -> None:
    seen: list[str] = []
    filters = {"t": TableFilter(ignored_columns=("secret",))} if masked else {}
    source = SourceDefinition(host="h", port=1, user="u", password=SecretStr("p"), databases=["shop"], filter=filters)

    class Streaming(Session):
        def stream(self) -> None:
            seen.append("stream")

    def look(question: Callable[[], None]) -> None:
        seen.append("later")
        with pytest.raises(Terminal, match="table t is odd"):
            question()

    finding = ServerFinding("table t", "is odd", "Mend it.")
    monkeypatch.setattr("include.source.run.first_look", lambda _source: [])
    monkeypatch.setattr("include.source.run.second_look", lambda _source: [finding])
    monkeypatch.setattr("include.source.run.LiveServer", lambda *_: SimpleNamespace(look=look, close=lambda: None))
    monkeypatch.setattr("include.source.run.CaptureSession", Streaming)
    capture = Capture("shop", source, SimpleNamespace(), ManualClock(1), Reporter())  # type: ignore[arg-type]
    if masked:
        with pytest.raises(Terminal, match="table t is odd"):
            capture.run()
    else:
        capture.run()
    assert seen == ([] if masked else ["later", "stream"])


def test_what_was_found_out_about_the_server_meanwhile_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("include.source.upstream.server_of", lambda _source: None)
    clock, asked = ManualClock(1), threading.Event()
    server = LiveServer("shop", SOURCE, clock)

    def question() -> None:
        asked.wait(10)
        raise Terminal("odd")

    def check_for_a_while() -> None:
        for _ in range(1000):
            server.check()
            threading.Event().wait(0.01)

    server.check()
    asked.set()
    server.look(question)
    server.check()
    clock.advance(60)
    with pytest.raises(Terminal, match="odd"):
        check_for_a_while()
