"""Apicurio Registry with its Confluent-compatible interface, storing in H2 files (survives kill -9).

It has one user, `lyrebird`, whose generated password it keeps as a hash.
"""

from __future__ import annotations

import hashlib
import shutil
from typing import Final

from include.local.process import Launch
from include.local.programs.java import wheel_java
from include.local.recipes.probe import answers
from include.local.records import write_private
from include.local.services import Service
from include.local.site import Site

__all__ = ["finish", "prepare", "ready"]

_USER: Final = "lyrebird"
_FILE: Final = "login.properties"

# In a file of a name that Quarkus does not look for by itself: a registry of a former release, in the same folder,
# would ask for a password that its stack does not send. The realm is fixed in the server, and part of the hash. The
# first line is, too, says Quarkus' log; but Apicurio asks for it at its start, and lets nobody in without.
_LOGIN: Final = """\
quarkus.http.auth.basic=true
quarkus.security.users.embedded.algorithm=digest-sha-512
quarkus.security.users.embedded.users.{user}={hashed}
quarkus.security.users.embedded.roles.{user}=sr-admin
quarkus.http.auth.permission.all.paths=/*
quarkus.http.auth.permission.all.policy=authenticated
"""


def prepare(site: Site, row: Service) -> tuple[Launch, ...]:
    """Return the server; the registry makes its own tables."""
    temporary = site.folder(row) / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)  # what a killed one has left
    folder, home = site.give(row), site.install(row)
    login = f"{_USER}:Quarkus:{site.secrets['LYREBIRD_REGISTRY_PASSWORD']}"
    hashed = hashlib.sha512(login.encode()).hexdigest()
    # By rename: root follows no link that the account has put there.
    write_private(folder / _FILE, _LOGIN.format(user=_USER, hashed=hashed))
    site.give(row)
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
        f"-Dquarkus.config.locations={_FILE}",  # of the folder that it runs in: a list of addresses, so no path
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
    """The list of subjects, as our user."""
    url = f"http://127.0.0.1:{site.ports['registry']}/apis/ccompat/v7/subjects"
    return answers(url, login=(_USER, site.secrets["LYREBIRD_REGISTRY_PASSWORD"]))


def finish(site: Site, row: Service) -> None:
    """Nothing: compatibility levels are set for each subject."""
