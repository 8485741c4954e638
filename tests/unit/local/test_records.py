from pathlib import Path

from include.clock import ManualClock
from include.local.process import Launch
from include.local.records import Records, ServerState, lock
from include.local.site import read_env

LAUNCH = Launch("kafka", ("java", "-x"), {"SECRET": "s"}, "/", "/tmp/kafka.log", uid=7, gid=8)


def test_a_launch_comes_back_as_it_was_asked_for(tmp_path: Path) -> None:
    records = Records(tmp_path)
    asked = records.ask(LAUNCH)
    spec = records.spec("kafka")
    assert spec is not None
    assert (spec.launch, spec.asked) == (LAUNCH, asked)
    assert records.names() == ["kafka"]


def test_asking_again_is_a_new_request(tmp_path: Path) -> None:
    records = Records(tmp_path)
    assert records.ask(LAUNCH) != records.ask(LAUNCH)


def test_what_was_forgotten_is_not_wanted(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.ask(LAUNCH)
    records.write(ServerState("kafka", "running", "x", pid=1, started=1.0))
    records.forget("kafka")
    assert (records.spec("kafka"), records.read("kafka"), records.names()) == (None, None, [])


def test_files_with_secrets_are_private(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.ask(LAUNCH)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "servers").iterdir()} == {0o600}


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    clock = ManualClock()
    with lock(tmp_path / "lock", clock) as first, lock(tmp_path / "lock", clock, patience_s=1.0) as second:
        assert (first, second) == (True, False)
    with lock(tmp_path / "lock", clock, patience_s=0.0) as third:
        assert third


def test_an_env_file_is_read_without_its_comments(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("# note=1\nA=1\nB=x=y\n\n")
    assert read_env(tmp_path / "env") == {"A": "1", "B": "x=y"}
    assert read_env(tmp_path / "none") == {}
