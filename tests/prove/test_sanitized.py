"""The fuzz tests of compiled modules under AddressSanitizer and UndefinedBehaviorSanitizer: neither finds anything.

The modules are built once more, into a folder of their own, and each test file runs in a process that takes them from
there. Compiled with `-DNDEBUG` and without these, a byte read behind the end of a buffer is mostly seen by nobody.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from include.source.native.build import SOURCES
from tests.support.paths import ROOT
from tests.support.sanitizers.modules import built, compiled, environment, runtimes
from tests.support.sanitizers.plugin import SAID

LIMIT_S = 3_300
FILES = [
    "tests/unit/record/test_fields.py",
    "tests/unit/record/test_key.py",
    "tests/unit/record/json/test_avro_json.py",
    "tests/unit/source/rows/test_json_native.py",
    "tests/unit/source/native/test_native.py",
    "tests/unit/source/rows/test_outputs.py",
    "tests/unit/source/binlog/test_plain.py",
    "tests/unit/source/rows/test_records.py",
    "tests/unit/source/binlog/test_runs.py",
    "tests/unit/source/rows/test_text_rows.py",
    "tests/unit/index/bulk/test_lines.py",
    "tests/unit/lake/formats/test_arrow_rows.py",
    "tests/unit/join/test_avro_rows.py",
    "tests/unit/join/test_gathering.py",
    "tests/prove/test_plain.py",
    "tests/prove/test_fuzz.py",
]
FAULTS = """
#pragma GCC visibility push(default)
int behind(const char *data, int at) { return data[at]; }
int shifted(int one, int by) { return one << by; }
"""

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(not runtimes(), reason="the compiler has no sanitizers. Debian: apt-get install gcc"),
]


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the modules, built by the first process of the session that wants them."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "sanitized"
    with (shared / "sanitized.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = shared / "sanitized.making"
            making.mkdir(exist_ok=True)
            built(making)
            making.rename(folder)
    return folder


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("behind(b'0123456789', 10)", ""),
        ("behind(b'0123456789', 11)", "AddressSanitizer: heap-buffer-overflow"),
        ("shifted(1, 31 + 9)", "runtime error: shift exponent 40 is too large"),
    ],
    ids=["within", "behind", "shifted"],
)
def test_a_fault_ends_the_process_and_is_named(call: str, told: str, tmp_path: Path) -> None:
    """Else the tests below could not fail."""
    library = compiled(FAULTS, tmp_path)
    command = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(library)!r}).{call}"]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=False, timeout=60)
    assert told in done.stderr
    assert done.returncode == (-signal.SIGABRT if told else 0), done.stderr


def test_the_modules_have_both_sanitizers(modules: Path) -> None:
    for file in modules.iterdir():
        code = file.read_bytes()
        assert b"__asan_report_load1" in code
        assert b"__ubsan_handle_" in code
    assert len(list(modules.iterdir())) == len(SOURCES)


@pytest.mark.parametrize("file", FILES)
def test_no_byte_is_read_or_written_where_it_must_not_be(file: str, modules: Path) -> None:
    plugins = ["-p", "tests.support.sanitizers.plugin", "-p", "no:cacheprovider"]
    # Not caught by pytest: what a sanitizer says comes last, and pytest ends with it.
    command = [sys.executable, "-m", "pytest", *plugins, "-q", "-s", "--tb=short", file]
    done = subprocess.run(
        command, env=environment(modules), cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    assert done.stdout.rstrip().count(SAID) == 1
