"""Kafka: one KRaft node that is broker and controller, with small buffers.

It has one user, `lyrebird`, whose generated password it keeps in its settings, as it logs in to itself, too.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Final

from include.errors import Terminal
from include.local import accounts, process
from include.local.cause import cause
from include.local.ports import is_free
from include.local.process import Launch
from include.local.programs.java import system_java
from include.local.records import write_private
from include.local.services import Service
from include.local.site import Site
from include.settings.connections import Kafka

__all__ = ["finish", "prepare", "ready"]

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=BROKER://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=BROKER://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:{protocol},BROKER:{protocol}
inter.broker.listener.name=BROKER
log.dirs={data}
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=8388608
log.cleaner.threads=1
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
"""
# log.cleaner: with the default buffer of 128 MiB a small heap dies. broker.session: a restart after kill -9 waits for
# the old session to end, 13 s by default, 4 s so.

_USER: Final = "lyrebird"

_LOGIN = """\
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.broker.plain.sasl.jaas.config={module}
listener.name.controller.plain.sasl.jaas.config={module}
"""
_MODULE = """\
org.apache.kafka.common.security.plain.PlainLoginModule required\
 username="{user}" password="{password}" user_{user}="{password}";"""

_LOGGING = """\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=console
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=INFO
"""


def _cluster_id(folder: Path) -> str:
    path = folder / "cluster_id"
    if not path.exists():
        write_private(path, base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("="))
    return accounts.read_given(path)


def prepare(site: Site, row: Service) -> tuple[Launch, ...]:
    """Write the properties, format the log folder once, return the node."""
    folder = site.give(row)
    data = folder / "data"
    properties = folder / "server.properties"
    text = _PROPERTIES.format(
        port=site.ports["kafka"],
        controller=site.ports["kafka_controller"],
        data=data,
        protocol="SASL_PLAINTEXT" if site.kafka_login else "PLAINTEXT",
    )
    if site.kafka_login:
        module = _MODULE.format(user=_USER, password=site.secrets["LYREBIRD_KAFKA_PASSWORD"])
        text += _LOGIN.format(module=module)
    # By rename: root follows no link that the account has put there.
    write_private(properties, text)
    logging = folder / "log4j2.properties"
    write_private(logging, _LOGGING)
    cluster_id = _cluster_id(folder)
    site.give(row)
    java = system_java()
    command = [
        java.command,
        f"-Dlog4j2.configurationFile={logging}",
        "-cp",
        f"{site.install(row)}/*",
    ]
    environment = site.server_environment(row, JAVA_HOME=str(java.home))
    if not (data / "meta.properties").exists():
        # With `=`, as an id may begin with a dash.
        form = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)]
        made = process.run(site.launch(row, [*command, *form], environment))
        if made.returncode != 0:
            said = " | ".join(cause(made.stdout + made.stderr))
            raise Terminal(f"Kafka's storage could not be formatted: {said}", fix=f"Look at {properties}.")
    heap = ["-Xms160m", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"]
    return (site.launch(row, [command[0], *heap, *command[1:], "kafka.Kafka", str(properties)], environment),)


def ready(site: Site, row: Service) -> bool:
    """Metadata that carries our own cluster id, as our user.

    A broker of somebody else's on this port does not count. Raises `Terminal` where ours asks nobody for a password.
    """
    if is_free(site.ports["kafka"]):
        return False
    password = site.secrets["LYREBIRD_KAFKA_PASSWORD"]
    if site.kafka_login and _answers(site, row, user=_USER, password=password):
        return True
    if not _answers(site, row):
        return False
    if site.kafka_login:
        raise Terminal(
            "Kafka runs as a former release started it, without a password", fix="`lyrebird down`, then `up`."
        )
    return True


def _answers(site: Site, row: Service, **login: str) -> bool:
    from confluent_kafka import KafkaException

    from include.log.kafka.errors import Connection

    silent = {"log_level": 0, "socket.timeout.ms": 3000}
    place = {"bootstrap": f"127.0.0.1:{site.ports['kafka']}", "options": silent}
    settings = Kafka.model_validate({**place, **login})
    client = Connection(settings.bootstrap, settings.options).admin()
    try:
        metadata = client.list_topics(timeout=3)
        return bool(metadata.brokers) and metadata.cluster_id == _cluster_id(site.folder(row))
    except (KafkaException, OSError):
        return False


def finish(site: Site, row: Service) -> None:
    """Nothing: each stage makes its own topics."""
