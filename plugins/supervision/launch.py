"""Starts a guardian, and the environment of whatever Airflow starts for Lyrebird."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from include.clock import Clock
from include.errors import Transient
from include.log.running.spark_home import installed_spark, spark_home
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT, cache_folder, deployment_folder, environment, state_folder
from supervision.connections import connection_fields
from supervision.guardian import EXIT_TAKEN
from supervision.run_folder import RunFolder

__all__ = ["application_environment", "launch"]

_GUARDIAN = Path(__file__).with_name("guardian.py")
# A guardian may first have to end what is left of the last generation (10 s).
_START_WITHIN_S = 30.0
_started: list[subprocess.Popen[bytes]] = []
"""Guardians outlive us on purpose; those that ended while we live are reaped at the next launch."""


def application_environment(given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of an application: ours, without Airflow's keys, which are no application's business.

    Added are all LYREBIRD_* names, what deployment files take from Airflow's connections (`${conn:…}`), the project on
    PYTHONPATH, the Python and the Spark of this installation.
    """
    names = {name: value for name, value in given.items() if "AIRFLOW" not in name.upper()}
    # Of our own guardian, were Airflow itself ever run by one.
    for name in ("LYREBIRD_RUN", "LYREBIRD_TOKEN", "LYREBIRD_LEASH"):
        names.pop(name, None)
    names.update(environment(names))
    # On a cluster the driver imports the library from the zip that it ships: its own path says nothing of the project.
    names.setdefault("LYREBIRD_DEPLOYMENT", str(deployment_folder(names)))
    names.setdefault("LYREBIRD_STATE", str(state_folder(names)))
    names |= connection_fields(Deployment.load(deployment_folder(names), {}), names)
    names["PYTHONPATH"] = str(PROJECT_ROOT)
    names["PYTHONUNBUFFERED"] = "1"
    names.setdefault("PYSPARK_PYTHON", sys.executable)
    if "SPARK_HOME" not in names:
        # Another Python than ours may have no pyspark but the one in Spark's home.
        ours = names["PYSPARK_PYTHON"] == sys.executable
        names["SPARK_HOME"] = str(spark_home(cache_folder(names)) if ours else installed_spark())
    return names


def launch(
    folder: RunFolder,
    argv: Sequence[str],
    names: Mapping[str, str],
    *,
    owner: str,
    token: str,
    grace_s: float,
    lease_ttl_s: float,
    clock: Clock,
    start_after_s: float = 0.0,
) -> bool:
    """Start a guardian in a session of its own and wait until it has started the application, or is to wait itself.

    Returns False when another guardian was faster: look again. Blocks up to 30 s.

    Args:
        folder: of the application's run; made where it is missing.
        argv: the application's command.
        names: the environment of guardian and application, all of it.
        owner: whose the application is: `dag|run|task|map_index`.
        token: names this generation.
        grace_s: seconds between the request to end and SIGTERM.
        lease_ttl_s: seconds that the application may run without a touch of its lease.
        clock: measures the wait.
        start_after_s: seconds that the guardian waits before it starts the application.

    Raises:
        Transient: the guardian did not come up; details name its log.
    """
    _started[:] = [guardian for guardian in _started if guardian.poll() is None]
    for each in [*reversed(folder.path.parents), folder.path]:
        # What is made here is nobody else's to read, nor what guardian and application write there.
        each.mkdir(mode=0o700, exist_ok=True)
    log_path = folder.path / "guardian.log"
    options = [f"--folder={folder.path}", f"--token={token}", f"--owner={owner}"]
    options += [f"--lease-ttl={lease_ttl_s}", f"--grace={grace_s}", f"--start-after={start_after_s}"]
    with open(log_path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as log:
        guardian = subprocess.Popen(  # noqa: S603 - the command of a DAG file
            # -I -S: nothing of the environment or of site-packages can break it.
            [sys.executable, "-I", "-S", str(_GUARDIAN), *options, "--", *argv],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(names),
            cwd=PROJECT_ROOT,
            start_new_session=True,
            umask=0o077,
        )
    _started.append(guardian)
    deadline = clock.monotonic_s() + _START_WITHIN_S
    while clock.monotonic_s() < deadline:
        rc = guardian.poll()
        seen = folder.observe()
        run = seen.run
        if run is not None and run.token == token and (rc is not None or run.pid is not None or run.waits):
            return True
        if rc == EXIT_TAKEN:
            return False
        if rc is not None:
            break
        clock.sleep(0.05)
    raise Transient(
        "the guardian did not start the application",
        system=folder.path.name,
        status=guardian.poll(),
        fix=f"Read {log_path}.",
    )
