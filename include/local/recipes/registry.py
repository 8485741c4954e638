"""Apicurio Registry with its Confluent-compatible interface, storing in H2 files (survives kill -9)."""

from __future__ import annotations

import shutil

from include.local.process import Launch
from include.local.programs.java import wheel_java
from include.local.recipes.probe import answers
from include.local.services import Service
from include.local.site import Site

__all__ = ["finish", "prepare", "ready"]


def prepare(site: Site, row: Service) -> tuple[Launch, ...]:
    """Return the server; the registry makes its own tables."""
    temporary = site.folder(row) / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)  # what a killed one has left
    folder, home = site.give(row), site.install(row)
    java = wheel_java()
    argv = (
        str(java),
        "-Xms64m",
        "-Xmx192m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",
        # Its framework's cache has one name on a machine, and belongs to whoever ran one first.
        f"-Djava.io.tmpdir={temporary}",
        "-Dquarkus.http.host=127.0.0.1",
        f"-Dquarkus.http.port={site.ports['registry']}",
        # Without these it listens on 0.0.0.0:9000 too.
        "-Dquarkus.management.host=127.0.0.1",
        f"-Dquarkus.management.port={site.ports['registry_management']}",
        "-Dapicurio.storage.kind=sql",
        "-Dapicurio.storage.sql.kind=h2",
        f"-Dapicurio.datasource.url=jdbc:h2:file:{folder}/db;MODE=LEGACY",
        "-jar",
        str(home / "quarkus-run.jar"),
    )
    return (site.launch(row, argv, site.server_environment(row, JAVA_HOME=str(java.parent.parent))),)


def ready(site: Site, row: Service) -> bool:
    """The list of subjects."""
    return answers(f"http://127.0.0.1:{site.ports['registry']}/apis/ccompat/v7/subjects")


def finish(site: Site, row: Service) -> None:
    """Nothing: compatibility levels are set for each subject."""
