"""Apicurio Registry with its Confluent-compatible interface, storing in H2 files (survives kill -9)."""

from __future__ import annotations

from include.local.process import Launch
from include.local.programs.java import wheel_java
from include.local.recipes.probe import answers
from include.local.services import Service
from include.local.site import Site

__all__ = ["finish", "prepare", "ready"]


def prepare(site: Site, row: Service) -> tuple[Launch, ...]:
    """Return the server; the registry makes its own tables."""
    folder, home = site.folder(row), site.install(row)
    folder.mkdir(parents=True, exist_ok=True)
    java = wheel_java()
    argv = (
        str(java),
        "-Xms64m",
        "-Xmx192m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",
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
    return (
        Launch(
            name="registry",
            argv=argv,
            env=site.server_environment(JAVA_HOME=str(java.parent.parent)),
            cwd=str(folder),
            log=str(site.log("registry")),
        ),
    )


def ready(site: Site, row: Service) -> bool:
    """The list of subjects."""
    return answers(f"http://127.0.0.1:{site.ports['registry']}/apis/ccompat/v7/subjects")


def finish(site: Site, row: Service) -> None:
    """Nothing: compatibility levels are set for each subject."""
