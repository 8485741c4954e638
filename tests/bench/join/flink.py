"""`python -m tests.bench.join.flink`: rows that a three-way join of Flink takes in for each CPU second.

The peer of `tests.bench.join.throughput`, which runs rounds of it between its own: Flink's MultiJoin with RocksDB, over
the rows that our join `three` reads, joined to the same columns. Flink does less for them: it reads text files and
writes nowhere, it joins inserts alone, and it makes no checkpoints. Ours reads Avro from Kafka, joins changes by their
versions, and commits outputs to Kafka and state to the object store, exactly once. CPU seconds are those of all its
processes. As on our side, a process that has joined 1,000 keys before is measured; what a job over these keys takes,
plan and start included, is taken off. Each round is a process of its own. Flink comes from PyPI, into an environment
below the cache, on first use. Ends with 1 when there is no figure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Timer
from typing import Any, Final

import psutil

from include.clock import Clock, SystemClock
from include.errors import LyrebirdError, Terminal, Transient
from include.local.programs.download import folder_mb, require_space, watch
from include.local.programs.java import system_java
from include.local.records import lock
from include.settings.environment import cache_folder
from tests.bench.join.place import made_row
from tests.bench.processes import cpu_by_kind

__all__ = ["FlinkPeer", "joins_of", "main"]

_VERSION: Final = "2.3.0"
# With all that Python functions inside a job need, it would be 500 MB more, some of them to be compiled.
_PACKAGES: Final = (
    f"apache-flink=={_VERSION}",
    f"apache-flink-libraries=={_VERSION}",
    "py4j==0.10.9.7",
    "ruamel.yaml==0.19.1",
    "typing_extensions==4.16.0",
)
_INSTALLED_MB: Final = 440
_DOWNLOAD_MB: Final = 340
_FEW: Final = 1_000
_WITHIN_S: Final = 600.0
_TABLES: Final = ("t0", "t1", "t2")
_COLUMNS: Final = "id BIGINT NOT NULL, k BIGINT, f BIGINT, n{0} BIGINT, pad{0} STRING, PRIMARY KEY (id) NOT ENFORCED"
_OUTPUT: Final = (
    "id0 BIGINT, k BIGINT, f BIGINT, n0 BIGINT, pad0 STRING, "
    "id1 BIGINT, n1 BIGINT, pad1 STRING, id2 BIGINT, n2 BIGINT, pad2 STRING"
)
_JOIN: Final = (
    "SELECT t0.id AS id0, t0.k, t0.f, n0, pad0, t1.id AS id1, n1, pad1, t2.id AS id2, n2, pad2 "
    "FROM t0 JOIN t1 ON t0.k = t1.k JOIN t2 ON t0.k = t2.k"
)
_INSERT: Final = f"INSERT INTO joined {_JOIN}"
_MULTI_JOIN: Final = "MultiJoin(commonJoinKey=[k]"
_ROCKSDB: Final = "RocksDBKeyedStateBackend"


class FlinkPeer:
    """Rounds of Flink over so many join keys. After one that failed there are no more, and no figure."""

    def __init__(self, keys: int, folder: Path) -> None:
        self.rounds: list[dict[str, float]] = []
        self.failed = ""
        self._keys, self._folder = keys, folder

    def round(self) -> None:
        """Join all rows once, in a process of its own; tells on stderr what it took, or why it could not."""
        if self.failed:
            return
        try:
            found = self._round(_installed(SystemClock()))
        except LyrebirdError as error:
            self.failed = str(error)
            print(f"Flink: error: {error}", file=sys.stderr)
            return
        self.rounds.append(found)
        told = f"{found['rows']:,.0f}: CPU {found['cpu_s']:.1f}, wall {found['wall_s']:.1f} s"
        print(f"Flink: {_rows_a_cpu_s(found):,.0f} rows a CPU second ({told})", file=sys.stderr)

    @property
    def rows_a_cpu_s(self) -> float | None:
        """Median of the rounds; None where one failed, or none was run."""
        return None if self.failed or not self.rounds else statistics.median(map(_rows_a_cpu_s, self.rounds))

    def times(self, ours: float) -> float | None:
        """So many a CPU second as a multiple of Flink's; None where Flink has no figure."""
        return None if self.rows_a_cpu_s is None else ours / self.rows_a_cpu_s

    def told(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {"rounds": self.rounds, "failed": self.failed, "rows_a_cpu_s": self.rows_a_cpu_s}

    def _round(self, python: Path) -> dict[str, float]:
        few, many = self._folder / "few", self._folder / "many"
        for rows, keys in ((few, _FEW), (many, self._keys)):
            if not rows.exists():
                _write(rows, keys)
        with tempfile.TemporaryDirectory(dir=self._folder) as name, _Flink(python, Path(name)) as flink:
            flink.use("few", few)
            if (count := flink("count", _JOIN)) != _FEW:
                raise Terminal(f"Flink joined {_FEW} keys to {count} rows", fix="Look for what _JOIN asks.")
            begun = flink.spent(_INSERT)
            flink.use("many", many)
            plan = flink("explain", _INSERT)
            if (joins := joins_of(plan)) != [_MULTI_JOIN]:
                raise Terminal(
                    "Flink's plan is not one MultiJoin over the join key",
                    fix="Look for table.optimizer.multi-join.enabled.",
                    joins=joins,
                    allowed=_MULTI_JOIN,
                )
            spent = flink.spent(_INSERT)
            if _ROCKSDB not in flink.log():
                raise Terminal(f"Flink's log knows no {_ROCKSDB}", fix="Look for state.backend.type.")
        taken = {part: spent[part] - begun[part] for part in spent}
        return taken | {"rows": float(len(_TABLES) * (self._keys - _FEW)), "load": os.getloadavg()[0]}


def joins_of(plan: str) -> list[str]:
    """The joins of a plan that EXPLAIN tells, as it is run: names of operators, with the common key if they say one."""
    _, _, run = plan.partition("== Optimized Execution Plan ==")
    return re.findall(r"\w*Join\((?:commonJoinKey=\[\w*\])?", run)


def _rows_a_cpu_s(found: dict[str, float]) -> float:
    return found["rows"] / found["cpu_s"]


def _write(rows: Path, keys: int) -> None:
    draw = random.Random(1)
    rows.mkdir()
    with ExitStack() as stack:
        files = [(each, stack.enter_context((rows / each).open("w", encoding="ascii"))) for each in _TABLES]
        for key in range(keys):
            for table, file in files:
                file.write(",".join(map(str, made_row(table, key, draw).values())) + "\n")


class _Flink:
    """A process of Flink until the block ends, or `_WITHIN_S` are over: two tasks at once. Calling it does a statement.

    All its files lie in `folder`. It listens on loopback only.
    """

    def __init__(self, python: Path, folder: Path) -> None:
        self._folder, self._late = folder, False
        configuration = {
            "parallelism.default": "2",
            "state.backend.type": "rocksdb",
            "table.optimizer.multi-join.enabled": "true",
            "taskmanager.memory.managed.size": "512m",
            "pipeline.object-reuse": "true",
            "io.tmp.dirs": str(folder),
            "jobmanager.bind-host": "127.0.0.1",
            "taskmanager.bind-host": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
        }
        given = {name: value for name, value in os.environ.items() if not name.startswith(("FLINK_", "PYTHON"))} | {
            "FLINK_LOG_DIR": str(folder),
            "JAVA_HOME": str(system_java().home),
            "JVM_ARGS": f"-Djava.io.tmpdir={folder}",
            "TMPDIR": str(folder),
            # No job has Python in it; otherwise a server for that would listen on all addresses.
            "_python_worker_execution_mode": "process",
        }
        with (folder / "said").open("wb") as said:
            self._process = subprocess.Popen(
                [python, Path(__file__).with_name("flink_job.py"), json.dumps(configuration)],
                cwd=folder,
                env=given,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                start_new_session=True,
            )
        self._timer = Timer(_WITHIN_S, self._too_late)

    def __enter__(self) -> _Flink:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._kill()
        self._process.wait(30)
        for stream in (self._process.stdin, self._process.stdout):
            # What it was not told any more does not matter.
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]

    def __call__(self, kind: str, statement: str) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        answer = ""
        # One that has ended does not read; why stands below.
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps([kind, statement]), file=stdin, flush=True)
            answer = stdout.readline()  # type: ignore[union-attr]
        if not answer and self._late:
            raise Terminal(
                f"Flink took more than {_WITHIN_S:.0f} s", fix="Give it fewer --keys, or a machine with less to do."
            )
        if not answer:
            said = (self._folder / "said").read_text(errors="replace").strip()[-2_000:]
            raise Terminal(f"Flink ended at {statement!r}: {said}", fix="Run python -m tests.bench.join.flink alone.")
        return json.loads(answer)

    def use(self, database: str, rows: Path) -> None:
        """Make a database of tables over these files and a sink that throws away; queries mean them from now on."""
        statements = [f"CREATE DATABASE {database}", f"USE {database}"]
        for table in _TABLES:
            options = f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{rows / table}'"
            statements.append(f"CREATE TABLE {table} ({_COLUMNS.format(table[1])}) WITH ({options})")
        statements.append(f"CREATE TABLE joined ({_OUTPUT}) WITH ('connector' = 'blackhole')")
        for each in statements:
            self("run", each)

    def spent(self, statement: str) -> dict[str, float]:
        """Do it; CPU seconds of all its processes and seconds meanwhile."""
        watched = psutil.Process(self._process.pid)
        before, begun_s = cpu_by_kind(watched), time.monotonic()
        self("run", statement)
        wall_s, after = time.monotonic() - begun_s, cpu_by_kind(watched)
        return {"cpu_s": sum(after.values()) - sum(before.values()), "wall_s": wall_s}

    def log(self) -> str:
        """What the JVM has logged."""
        return "".join(each.read_text(errors="replace") for each in self._folder.glob("*.log"))

    def _too_late(self) -> None:
        self._late = True
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            for each in (*process.children(recursive=True), process):
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()


def _installed(clock: Clock) -> Path:
    """The Python of Flink's environment below the cache, made when it is not there. Waits for another that makes it.

    Transient when PyPI does not give it, Terminal when the disk is full.
    """
    peers = cache_folder() / "peers"
    venv = peers / f"flink-{_VERSION}-python{sys.version_info.major}.{sys.version_info.minor}"
    with lock(peers / "lock", clock):
        if not venv.exists():
            require_space(peers, _INSTALLED_MB + _DOWNLOAD_MB)
            side = peers / ".side"
            shutil.rmtree(side, ignore_errors=True)
            try:
                _install(side, clock)
                side.rename(venv)
            finally:
                shutil.rmtree(side, ignore_errors=True)
    return venv / "bin" / "python"


def _install(side: Path, clock: Clock) -> None:
    subprocess.run([sys.executable, "-m", "venv", side], check=True)
    pip = [str(side / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-cache-dir", "--no-deps", "--only-binary", ":all:", *_PACKAGES]
    # pip unpacks in TMPDIR: here it is surely deleted.
    log, temporary = side / "pip.log", side / "tmp"
    temporary.mkdir()
    with log.open("wb") as said:
        environment = {**os.environ, "TMPDIR": str(temporary)}
        process = subprocess.Popen(pip, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        title, total_mb = f"Installing {_PACKAGES[0]}", _INSTALLED_MB + _DOWNLOAD_MB
        try:
            code = watch(process, title, total_mb, lambda: folder_mb(side), clock)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if code != 0:
        said_last = " | ".join(log.read_text(errors="replace").splitlines()[-3:])
        raise Transient(
            f"{_PACKAGES[0]} could not be had from PyPI: {said_last}",
            fix="Check the network (a proxy or mirror: pip's own settings) and that this Python is one of 3.9 to 3.12; "
            "then run it again.",
            system="PyPI",
        )


def main() -> int:
    """Join in rounds, tell; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=400_000, help="join keys, each with a row of each table")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        peer = FlinkPeer(arguments.keys, Path(name))
        for _ in range(arguments.rounds):
            peer.round()
    if arguments.json:
        print(json.dumps(peer.told()))
    elif peer.rows_a_cpu_s is not None:
        print(f"Flink's MultiJoin with RocksDB: {peer.rows_a_cpu_s:,.0f} rows a CPU second")
    return 1 if peer.failed else 0


if __name__ == "__main__":
    sys.exit(main())
