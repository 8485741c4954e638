"""One connection describes Spark: both operators take master and defaults from it."""

from __future__ import annotations

import itertools
import json
import os
import re
import stat
import zipfile
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from include.errors import SettingsError
from include.settings.environment import PROJECT_ROOT
from supervision.leash import leashed
from supervision.spark import conf_for_master, executor_environment, packed_library, properties_text
from supervision.spark_operators import SparkJobOperator, SparkStreamingOperator

NAMES = {
    "SPARK_HOME": "/spark",
    "PYSPARK_PYTHON": "/venv/python",
    "LYREBIRD_MYSQL_PASSWORD": "geheim",
    "LYREBIRD_STATE": "/s",
}


def connect(monkeypatch: pytest.MonkeyPatch, host: str, **extra: Any) -> None:
    connection = {"conn_type": "spark", "host": host, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


def streaming(**more: Any) -> list[str]:
    operator = SparkStreamingOperator(
        task_id="run",
        application="index_orders",
        entry="spark_apps/index_documents.py",
        arguments=["--application", "index_orders"],
        **more,
    )
    return operator.command(dict(NAMES))


def conf(argv: list[str]) -> dict[str, str]:
    pairs = [value for flag, value in itertools.pairwise(argv) if flag == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


def option(argv: list[str], name: str) -> str | None:
    return argv[argv.index(name) + 1] if name in argv else None


def test_the_connections_host_is_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "local[3]")
    argv = streaming(memory="700m")
    assert argv[0] == "/spark/bin/spark-submit"
    assert option(argv, "--master") == "local[3]"
    assert option(argv, "--driver-memory") == "700m"
    assert option(argv, "--name") == "index_orders"
    program = str(PROJECT_ROOT / "spark_apps/index_documents.py")
    assert argv[-3:] == [program, "--application", "index_orders"]
    assert "--py-files" not in argv


def test_a_cluster_gets_the_library_the_python_and_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "spark://10.0.0.7:7077")
    argv = streaming(cores=2)
    assert option(argv, "--master") == "spark://10.0.0.7:7077"
    library = Path(option(argv, "--py-files") or "")
    assert "include/clock.py" in zipfile.ZipFile(library).namelist()
    given = conf(argv)
    assert given["spark.pyspark.python"] == "/venv/python"
    assert given["spark.cores.max"] == "2"
    assert "spark.driver.host" not in given


def test_no_password_stands_in_the_command_line_or_in_the_executors_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect(monkeypatch, "spark://10.0.0.7:7077")
    argv = streaming()
    assert "geheim" not in " ".join(argv)
    properties = Path(option(argv, "--properties-file") or "")
    assert stat.S_IMODE(properties.stat().st_mode) == 0o600
    names = [line.partition("=")[0] for line in properties.read_text().splitlines()]
    assert names == ["spark.executorEnv.LYREBIRD_STATE"]


@pytest.mark.parametrize("master", ["local[2]", "spark://10.0.0.7:7077"])
def test_a_secret_of_the_connection_or_the_application_goes_by_a_private_file(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, master, conf={"spark.authenticate": "true", "spark.authenticate.secret": "ge=heim"})
    argv = streaming(conf={"spark.hadoop.fs.s3a.access.key": "geheimer"})
    assert "heim" not in " ".join(argv)
    assert conf(argv)["spark.authenticate"] == "true"
    properties = Path(option(argv, "--properties-file") or "")
    assert stat.S_IMODE(properties.stat().st_mode) == 0o600
    held = as_java_reads(properties.read_text())
    assert (held["spark.authenticate.secret"], held["spark.hadoop.fs.s3a.access.key"]) == ("ge=heim", "geheimer")
    # The cluster's own spark-defaults.conf counts all the same.
    assert argv[1] == "--load-spark-defaults"


def test_a_file_with_secrets_goes_with_the_last_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "local[2]", conf={"spark.authenticate.secret": "geheim"})
    properties = Path(option(streaming(), "--properties-file") or "")
    assert properties.is_file()
    connect(monkeypatch, "local[2]")
    argv = streaming()
    assert not properties.exists()
    assert "--properties-file" not in argv
    assert "--load-spark-defaults" not in argv


def test_an_applications_own_setting_wins_over_the_connections_and_that_over_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect(monkeypatch, "local[2]", conf={"spark.ui.enabled": "true", "spark.x": "connection"})
    given = conf(streaming(conf={"spark.x": "application"}))
    assert given["spark.ui.enabled"] == "true"
    assert given["spark.x"] == "application"


def test_without_the_connection_nothing_is_sent_to_yarn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    from airflow.sdk.bases.hook import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    def missing(_cls: Any, conn_id: str) -> Any:
        raise AirflowNotFoundException(conn_id)

    monkeypatch.setattr(BaseHook, "get_connection", classmethod(missing))
    with pytest.raises(SettingsError, match="airflow connections add spark_default"):
        streaming()


def test_a_job_takes_the_same_connection_and_runs_on_a_leash(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "local[3]")
    job = SparkJobOperator(
        task_id="audit",
        name="audit_search",
        application="/apps/audit.py",
        application_args=["--topic", "a"],
        driver_memory="600m",
    )
    argv = job._get_hook().argv(Path("/apps/audit.py"))
    prefix = leashed([])
    assert argv[: len(prefix)] == prefix
    assert argv[len(prefix)].endswith("/bin/spark-submit")
    assert option(argv, "--master") == "local[3]"
    assert option(argv, "--driver-memory") == "600m"
    assert argv[-3:] == ["/apps/audit.py", "--topic", "a"]


def test_only_a_master_of_this_machine_binds_to_loopback() -> None:
    def host(master: str) -> str | None:
        return conf_for_master(master, memory="1g", cores=1, names={}).get("spark.driver.host")

    assert host("local[2]") == host("spark://127.0.0.1:7077") == "127.0.0.1"
    assert host("spark://spark-master:7077") is None


def test_the_same_library_makes_the_same_file(tmp_path: Path) -> None:
    package = tmp_path / "lib"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__pycache__" / "a.pyc").write_bytes(b"x")
    (package / "a.py").write_text("1")
    first = packed_library(package, tmp_path / "out")
    assert packed_library(package, tmp_path / "out") == first
    assert zipfile.ZipFile(first).namelist() == ["lib/a.py"]
    (package / "a.py").write_text("2")
    assert packed_library(package, tmp_path / "out") != first


def test_the_ten_zips_that_were_used_last_are_kept(tmp_path: Path) -> None:
    package, out = tmp_path / "lib", tmp_path / "out"
    package.mkdir()
    made = []
    for number in range(12):
        (package / "a.py").write_text(str(number))
        made.append(packed_library(package, out))
        os.utime(made[-1], (number, number))
    (package / "a.py").write_text("2")
    assert packed_library(package, out) == made[2]
    (package / "a.py").write_text("new")
    made.append(packed_library(package, out))
    assert set(out.iterdir()) == {made[2], *made[4:]}


def as_java_reads(text: str) -> dict[str, str]:
    """What `java.util.Properties.load` makes of a file: its rules for comments, blanks, lines, separators, escapes."""
    blank = " \t\f"
    logical = re.findall(r"(?:[^\\\r\n]|\\(?:\r\n|[\s\S]))+", text)
    found = {}
    for line in logical:
        line = re.sub(rf"\\(?:\r\n|\r|\n)[{blank}]*", "", line).lstrip(blank)
        if not line or line[0] in "#!":
            continue
        parts = re.match(rf"((?:[^\\=:{blank}]|\\[\s\S])*)[{blank}]*[=:]?[{blank}]*([\s\S]*)", line)
        assert parts is not None
        name, value = (_unescaped(part) for part in parts.groups())
        found[name] = value
    return found


def _unescaped(text: str) -> str:
    letters = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def one(match: re.Match[str]) -> str:
        code, letter = match.groups()
        return chr(int(code, 16)) if code else letters.get(letter, letter)

    units = re.sub(r"\\(?:u([0-9a-fA-F]{4})|([\s\S]))", one, text)
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def test_the_reader_of_these_tests_knows_the_rules_of_java() -> None:
    text = "# no\n ! no\n\na=b=c\n  k\\:e\\ y : v \\\n   w\nx y\nz\nt=\\t\\u00e9\\q\r\nu=\\ud83d\\ude00"
    assert as_java_reads(text) == {"a": "b=c", "k:e y": "v w", "x": "y", "z": "", "t": "\té" + "q", "u": "😀"}


# As the environment may hold them: bytes that are no UTF-8 are lone low surrogates.
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \t\f\r\n\\=:#!😀\udcff"), max_size=20)


@hypothesis.given(st.dictionaries(_TEXTS.filter(bool), _TEXTS, max_size=4))
@hypothesis.example({"k e:y=": " \ta😀\r\n\f\\"})
def test_names_and_values_survive_a_java_properties_file(properties: dict[str, str]) -> None:
    text = properties_text(properties)
    assert text.isascii()
    assert as_java_reads(text) == properties


def test_executors_get_no_more_of_the_environment_than_they_need() -> None:
    held = executor_environment({"LYREBIRD_STATE": "/s", "LYREBIRD_RUN": "/r", "HOME": "/h"})
    assert held == {"spark.executorEnv.LYREBIRD_STATE": "/s"}


def test_drivers_of_this_machine_map_the_archive_of_sparks_classes() -> None:
    names = {"LYREBIRD_SPARK_CLASSES": "/a cache/classes.jsa"}
    key = "spark.driver.extraJavaOptions"
    assert (
        '"-XX:SharedArchiveFile=/a cache/classes.jsa"'
        in conf_for_master("local[2]", memory="1g", cores=1, names=names)[key]
    )
    assert "Shared" not in conf_for_master("local[2]", memory="1g", cores=1, names={})[key]
    assert key not in conf_for_master("spark://h:7077", memory="1g", cores=1, names=names)
