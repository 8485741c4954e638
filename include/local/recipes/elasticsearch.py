"""Elasticsearch, single node on loopback, with one user: `lyrebird`, whose generated password it keeps as a hash."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Final

from include.local.process import Launch
from include.local.programs import elasticsearch_plugin
from include.local.programs.java import system_java
from include.local.recipes.probe import get_json
from include.local.records import write_private
from include.local.services import Service
from include.local.site import Site

__all__ = ["finish", "prepare", "ready"]

_FOLDING = Path(__file__).with_name("FoldingPlugin.java")

_USER: Final = "lyrebird"

_CONFIG = """\
cluster.name: lyrebird
node.name: lyrebird
discovery.type: single-node
network.host: 127.0.0.1
http.port: {port}
transport.port: {transport}
path.data: {folder}/data
path.logs: {folder}/logs
xpack.security.enabled: true
xpack.security.http.ssl.enabled: false
xpack.security.transport.ssl.enabled: false
xpack.security.authc.reserved_realm.enabled: false
cluster.routing.allocation.disk.watermark.low: 2gb
cluster.routing.allocation.disk.watermark.high: 1gb
cluster.routing.allocation.disk.watermark.flood_stage: 512mb
action.auto_create_index: false
"""
# Watermarks in bytes: the defaults are parts of the disk, and lock every index of a large disk that is 95 % full.

_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] [%node_name]%marker %m%consoleException%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
logger.deprecation.name = org.elasticsearch.deprecation
logger.deprecation.level = error
"""
# To the console alone, whose file the supervisor keeps short: the distribution's own files may grow to gigabytes. So
# may the collector's log and a heap's dump, which the options end.
_OPTIONS = (
    "-Xms256m -Xmx256m -XX:TieredStopAtLevel=1 -XX:-HeapDumpOnOutOfMemoryError"
    " -Xlog:disable -Xlog:all=warning:stderr:utctime,level,tags"
    # The index in which built-in roles would be found wants an analyzer that the small distribution lacks.
    " -Des.queryable_built_in_roles_enabled=false"
)


def prepare(site: Site, row: Service) -> tuple[Launch, ...]:
    """Write the configuration into the state folder, add the filter that the distribution lacks, return the node."""
    folder, home = site.give(row), site.install(row)
    java = system_java()
    elasticsearch_plugin.install(home, row.version, _FOLDING, "lyrebird.FoldingPlugin")
    config = folder / "config"
    for name in ("data", "logs"):
        (folder / name).mkdir(exist_ok=True)
    shipped = [file for file in (home / "config").iterdir() if file.is_file()]
    files = {file.name: file.read_text() for file in shipped if not (config / file.name).exists()}
    files["elasticsearch.yml"] = _CONFIG.format(
        port=site.ports["elasticsearch"], transport=site.ports["elasticsearch_transport"], folder=folder
    )
    files["log4j2.properties"] = _LOGGING
    # Of the file realm, which needs no index and no run of a tool, unlike the password of `elastic`.
    files["users"] = f"{_USER}:{_hashed(site.secrets['LYREBIRD_ELASTICSEARCH_PASSWORD'])}\n"
    files["users_roles"] = f"superuser:{_USER}\n"
    for name, text in files.items():
        # By rename: root follows no link that the account has put there.
        write_private(config / name, text, given=True)
    site.give(row)
    environment = site.server_environment(
        row,
        ES_JAVA_HOME=str(java.home),
        ES_JAVA_OPTS=_OPTIONS,
        ES_TMPDIR=str(folder / "tmp"),
        ES_PATH_CONF=str(config),
    )
    return (site.launch(row, [str(home / "bin" / "elasticsearch")], environment),)


def _hashed(password: str) -> str:
    """As the node reads it: PBKDF2 with HMAC-SHA512, 10,000 rounds, salt and hash of 32 bytes."""
    salt, rounds = os.urandom(32), 10_000
    found = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, rounds, 32)
    return "{PBKDF2}" + "$".join((str(rounds), *(base64.b64encode(each).decode() for each in (salt, found))))


def ready(site: Site, row: Service) -> bool:
    """The cluster's health, as our user. Not `GET /`, which this distribution does not have."""
    health = get_json(
        f"http://127.0.0.1:{site.ports['elasticsearch']}/_cluster/health",
        login=(_USER, site.secrets["LYREBIRD_ELASTICSEARCH_PASSWORD"]),
    )
    return isinstance(health, dict) and health.get("status") in {"yellow", "green"}


def finish(site: Site, row: Service) -> None:
    """Nothing: the indexer makes its own index."""
