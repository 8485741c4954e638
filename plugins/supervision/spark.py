"""spark-submit as one Airflow connection describes it: `spark_default` names the master and the defaults.

Going from `local[2]` to `spark://host:7077` is the change of that connection's host. Its extra may hold, beside the
provider's own keys (`deploy-mode`, `queue`, …), `{"conf": {"spark.…": …}}`: defaults for every application. Order,
the later wins: what the master asks for (below), the connection's `conf`, the application's own. Those with a secret go
by a file of mode 600, as every account of a machine can read command lines.

On a cluster `include` goes along as a zip (`--py-files`), and the executors get the same Python and the names of
`_EXECUTORS_NEED`: addresses and secrets reach tasks with their work, from a driver that has filled the deployment.
"""

from __future__ import annotations

import hashlib
import os
import re
import string
import struct
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowNotFoundException

from include.errors import SettingsError
from include.log.running.spark_settings import driver_options
from include.settings.environment import PROJECT_ROOT, state_folder
from supervision.leash import leashed

__all__ = [
    "CONNECTION",
    "LeashedSparkHook",
    "ProjectSparkHook",
    "conf_for_master",
    "executor_environment",
    "packed_library",
    "properties_text",
]

CONNECTION = "spark_default"
_KEPT_ZIPS = 10
_EXECUTORS_NEED = ("LYREBIRD_DEPLOYMENT", "LYREBIRD_NATIVE", "LYREBIRD_STATE")
# As Spark's own `spark.redaction.regex`.
_SECRET = re.compile("secret|password|token|access[.]?key", re.IGNORECASE)
_PLAIN = frozenset(string.ascii_letters + string.digits + "._-/")
_LOOPBACK = ("127.0.0.1", "localhost")


class ProjectSparkHook(SparkSubmitHook):
    """The provider's hook, with what an application of this project needs on the connection's master.

    Args:
        application_name: its name in Spark and in Lyrebird.
        arguments: after the program.
        conf: the application's own Spark configuration.
        memory: heap of the driver, and of each executor on a cluster.
        cores: how many it takes of a cluster.
        names: environment of spark-submit (`launch.application_environment`).
        conn_id: the connection.

    Raises:
        SettingsError: there is no such connection (the provider would fall back to YARN).
    """

    def __init__(
        self,
        *,
        application_name: str,
        arguments: Sequence[str],
        conf: Mapping[str, Any],
        memory: str,
        cores: int,
        names: Mapping[str, str],
        conn_id: str = CONNECTION,
    ) -> None:
        try:
            connection = self.get_connection(conn_id)
        except AirflowNotFoundException as error:
            raise SettingsError(
                "there is no Spark connection",
                name=conn_id,
                fix=f"Add it, e.g. `airflow connections add {conn_id} --conn-type spark --conn-host 'local[2]'`.",
            ) from error
        super().__init__(  # type: ignore[no-untyped-call,unused-ignore]
            conn_id=conn_id,
            name=application_name,
            driver_memory=memory,
            application_args=list(arguments),
        )
        self._names = dict(names)
        master: str = self._connection["master"]
        wanted = {
            **conf_for_master(master, memory=memory, cores=cores, names=names),
            **connection.extra_dejson.get("conf", {}),
            **conf,
        }
        self._conf = {name: value for name, value in wanted.items() if not _SECRET.search(name)}
        properties = {name: str(value) for name, value in wanted.items() if _SECRET.search(name)}
        folder = state_folder() / "spark"
        if not master.startswith("local"):
            self._py_files = str(packed_library(PROJECT_ROOT / "include", folder))
            properties |= executor_environment(names)
        path = folder / f"{application_name}.properties"
        if properties:
            self._properties_file = str(_write_properties(path, properties))
        else:
            path.unlink(missing_ok=True)

    def argv(self, application: Path) -> list[str]:
        """The whole command that runs `application`."""
        return list(self._build_spark_submit_command(str(application)))

    def _build_spark_common_args(self) -> list[str]:
        arguments: list[str] = super()._build_spark_common_args()
        # A file of properties would take the place of the cluster's own spark-defaults.conf.
        return ["--load-spark-defaults", *arguments] if self._properties_file else arguments

    def _get_spark_binary_path(self) -> list[str]:
        home = self._names.get("SPARK_HOME")
        binary: str = self._connection["spark_binary"]
        return [str(Path(home) / "bin" / binary) if home else binary]


class LeashedSparkHook(ProjectSparkHook):
    """For work that ends by itself: it ends with its task, whatever ends that (leash.py)."""

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run to the end; blocks, relays the output to the task's log; raises when the status is not 0."""
        return super().submit(application, env=self._names, **kwargs)

    def on_kill(self) -> None:
        """Give the leash its signal and time to end all processes; then as the provider does."""
        leash = self._submit_sp
        if leash is not None and leash.poll() is None:
            leash.terminate()
            try:
                leash.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.log.warning("the leash of %s does not end", self._name)
        super().on_kill()

    def _get_spark_binary_path(self) -> list[str]:
        return leashed(super()._get_spark_binary_path())


def conf_for_master(master: str, *, memory: str, cores: int, names: Mapping[str, str]) -> dict[str, str]:
    """What a master asks of every application: nothing that an application or a connection could not override."""
    conf = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC", "spark.log.level": "WARN"}
    if master.startswith("local") or any(f"//{host}:" in master for host in _LOOPBACK):
        # A laptop's address changes with its network; nothing here listens to the outside.
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith("local"):
        return {**conf, "spark.driver.extraJavaOptions": driver_options(names.get("LYREBIRD_SPARK_CLASSES", ""))}
    # A standalone master gives all its cores to the first application that sets no limit.
    conf |= {"spark.cores.max": str(cores), "spark.executor.memory": memory}
    if python := names.get("PYSPARK_PYTHON"):
        conf["spark.pyspark.python"] = python
    return conf


def packed_library(package: Path, folder: Path) -> Path:
    """Zip a package for the executors; the same content gives the same file, which is then made only once.

    The ten that were used last stay: executors of a running application may still fetch an older one. What `make setup`
    compiled stays here: no executor needs it, and it fits this machine alone.
    """
    files = sorted(
        path
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    )
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    target = folder / f"{package.name}-{digest.hexdigest()[:16]}.zip"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.write(path, path.relative_to(package.parent))
        temporary.replace(target)
    os.utime(target)
    for old in sorted(folder.glob(f"{package.name}-*.zip"), key=lambda path: path.stat().st_mtime)[:-_KEPT_ZIPS]:
        old.unlink(missing_ok=True)
    return target


def executor_environment(names: Mapping[str, str]) -> dict[str, str]:
    """The properties that give executors the names that they need."""
    return {f"spark.executorEnv.{name}": value for name, value in names.items() if name in _EXECUTORS_NEED}


def properties_text(properties: Mapping[str, str]) -> str:
    """A Java properties file, in ASCII."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in sorted(properties.items()))


def _escaped(text: str) -> str:
    """Each UTF-16 unit that could mean something else in such a file as its number."""
    units = struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass"))
    return "".join(chr(unit) if chr(unit) in _PLAIN else f"\\u{unit:04x}" for (unit,) in units)


def _write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(properties_text(properties))
    temporary.replace(path)
    return path
