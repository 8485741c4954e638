import os
import subprocess
import sys
from pathlib import Path

from include.local.logs import remove_older, rotate

WRITER = "import sys\nfor line in sys.stdin:\n    print(line.strip(), flush=True)\n"


def test_a_log_is_cut_while_its_writer_goes_on_and_no_hole_is_left(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    with log.open("ab") as output:
        writer = subprocess.Popen([sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=output, text=True)
    assert writer.stdin
    log.write_bytes(b"a" * 100 + b"b" * 100)
    assert rotate(log, limit_bytes=100)
    writer.stdin.write("after\n")
    writer.stdin.close()
    assert writer.wait() == 0
    assert log.read_bytes() == b"after\n"
    assert (tmp_path / "kafka.old.log").read_bytes() == b"b" * 100


def test_a_short_log_and_what_was_kept_of_an_older_one_stay_as_they_are(tmp_path: Path) -> None:
    for name in ("kafka.log", "s3.old.log"):
        (tmp_path / name).write_bytes(b"a" * (50 if name == "kafka.log" else 500))
        assert not rotate(tmp_path / name, limit_bytes=100)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kafka.log", "s3.old.log"]


def test_where_there_is_no_room_for_a_copy_the_log_is_cut_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_bytes(b"a" * 200)
    (tmp_path / "kafka.old.log").mkdir()  # opening it fails, as on a full disk
    assert rotate(log, limit_bytes=100)
    assert log.read_bytes() == b""


def test_task_logs_go_by_age_and_those_of_what_runs_stay(tmp_path: Path) -> None:
    old, running = tmp_path / "dag_id=audit" / "old.log", tmp_path / "dag_id=stream" / "running.log"
    for path, written_s in ((old, 100.0), (running, 300.0)):
        path.parent.mkdir()
        path.write_text("x")
        os.utime(path, (written_s, written_s))
        os.utime(path.parent, (100.0, 100.0))
    (tmp_path / "latest").symlink_to(running.parent)
    assert remove_older(tmp_path, before_s=200.0) == 1
    assert not old.parent.exists()
    assert running.exists()
    assert remove_older(tmp_path / "none", before_s=200.0) == 0
