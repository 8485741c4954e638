"""Logs of servers that did not come up, shortened, and what the error says of each."""

import pytest

from include.local.cause import cause

ELASTICSEARCH = """\
[2026-11-02T18:00:47,284][INFO ][o.e.p.PluginsService     ] [lyrebird] loaded plugin [foldingplugin]
[2026-11-02T18:01:13,747][ERROR][o.e.b.Elasticsearch      ] [lyrebird] fatal exception while booting \
Elasticsearchorg.elasticsearch.ElasticsearchException: Failed to bind service
\tat org.elasticsearch.server@8.19.21/org.elasticsearch.node.NodeConstruction.prepareConstruction(X.java:307)
Caused by: java.io.UncheckedIOException: reading failed
\tat org.elasticsearch.server@8.19.21/org.elasticsearch.env.NodeEnvironment.<init>(NodeEnvironment.java:281)
\tSuppressed: java.lang.RuntimeException: Rethrowing promise failure cause
\tCaused by: java.lang.IllegalStateException: of the suppressed one
Caused by: java.nio.file.FileAlreadyExistsException: /state/elasticsearch/data
\tat java.base/sun.nio.fs.UnixException.translateToIOException(UnixException.java:94)
\t... 4 more

ERROR: Elasticsearch did not exit normally - check the logs at /state/elasticsearch/logs/lyrebird.log

ERROR: Elasticsearch died while starting up, with exit code 1
"""

KAFKA = """\
[2026-11-02 18:00:13,102] INFO [BrokerServer id=1] Transition from STARTING to STARTED (kafka.server.BrokerServer)
[2026-11-02 18:00:14,574] ERROR Unable to start acceptor for PLAINTEXT (kafka.network.DataPlaneAcceptor)
org.apache.kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:26167: Address already in use.
\tat kafka.network.Acceptor.openServerSocket(SocketServer.scala:610)
Caused by: java.net.BindException: Address already in use
\tat java.base/sun.nio.ch.Net.bind0(Native Method)
\t... 16 more
[2026-11-02 18:00:14,576] ERROR [BrokerServer id=1] Fatal error during broker startup (kafka.server.BrokerServer)
java.lang.RuntimeException: Received a fatal error while waiting for all of the SocketServer Acceptors to be started
\tat org.apache.kafka.server.util.FutureUtils.waitWithLogging(FutureUtils.java:73)
"""

KAFKA_WITHOUT_CAUSE = """\
[2026-11-02 18:00:04,804] ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)
java.lang.RuntimeException: No readable meta.properties files found.
\tat org.apache.kafka.metadata.properties.MetaPropertiesEnsemble.verify(MetaPropertiesEnsemble.java:500)
\tat kafka.Kafka.main(Kafka.scala)
"""

MARIADB = """\
2026-11-02 18:00:22 0 [Warning] Could not increase number of max_open_files to more than 20000 (request: 32133)
2026-11-02 18:00:29 0 [Note] Server socket created on IP: '127.0.0.1'.
2026-11-02 18:00:29 0 [ERROR] Can't start server: Bind on TCP/IP port. Got error: 98: Address already in use
2026-11-02 18:00:29 0 [ERROR] Do you already have another server running on port: 20268 ?
2026-11-02 18:00:29 0 [ERROR] Aborting
"""

REGISTRY = """\
2026-11+00-02 18:00:35 INFO [io.apicurio.registry.storage.impl.search] (executor-thread-2) search index DISABLED
2026-11+00-02 18:00:35 ERROR [io.quarkus.arc.impl.DefaultAsyncObserverExceptionHandler] (executor-thread-4) Failure \
occurred while notifying an async Observer
- please enable debug logging to see the full stack trace
2026-11+00-02 18:00:35 ERROR [io.quarkus.runtime.ApplicationLifecycleManager] (main) Port 27454 seems to be in use
2026-11+00-02 18:00:35 WARN [io.quarkus.runtime.ApplicationLifecycleManager] (main) You can try to kill it
"""

S3 = """\
No IAM service configured, enabling single account mode
2026/11/02 18:00:57 failed to bind s3 listener 127.0.0.1:29714: bind: address already in use
"""

AIRFLOW = """\
2026-11-02T18:00:00.930994Z [warning  ] Failed to log action [airflow.utils.cli_action_loggers] loc=cli.py:157
Traceback (most recent call last):
  File "/venv/sqlalchemy/engine/base.py", line 144, in __init__
    self._dbapi_connection = engine.raw_connection()
sqlite3.OperationalError: unable to open database file

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/venv/airflow/utils/cli_action_loggers.py", line 147, in default_action_log
sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) unable to open database file
(Background on this error at: https://sqlalche.me/e/21/e3q8)
"""

AIRFLOW_LEVEL = """\
2026-11-02T18:00:00.930994Z [info     ] Starting the triggerer [airflow.jobs] loc=triggerer.py:9
2026-11-02T18:00:01.102000Z [error    ] Exception when executing TriggererJobRunner [airflow.jobs] loc=triggerer.py:70
Traceback (most recent call last):
  File "/venv/airflow/jobs/triggerer_job_runner.py", line 171, in _execute
OSError: [Errno 98] Address already in use
2026-11-02T18:00:01.300000Z [error    ] Waiting for triggers to clean up [airflow.jobs] loc=triggerer.py:80
"""

ARGUMENTS = "usage: airflow triggerer [-h]\n\nairflow command error: unrecognized arguments: --no, see help above.\n"

PANIC = """\
2026/11/02 18:00:57 listening
panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x4a2b10]

goroutine 1 [running]:
main.main()
"""

OUT_OF_MEMORY = """\
2026-11+00-02 18:00:35 INFO [io.apicurio.registry] (main) started
Terminating due to java.lang.OutOfMemoryError: Java heap space
"""


@pytest.mark.parametrize(
    ("log", "named"),
    [
        (
            ELASTICSEARCH,
            ["Failed to bind service", "java.nio.file.FileAlreadyExistsException: /state/elasticsearch/data"],
        ),
        (KAFKA, ["Unable to start acceptor for PLAINTEXT", "java.net.BindException: Address already in use"]),
        (
            KAFKA_WITHOUT_CAUSE,
            ["Exiting Kafka", "No readable meta.properties files found."],
        ),
        (MARIADB, ["Can't start server: Bind on TCP/IP port. Got error: 98: Address already in use"]),
        (REGISTRY, ["Port 27454 seems to be in use"]),
        (S3, ["enabling single account mode", "failed to bind s3 listener 127.0.0.1:29714"]),
        (AIRFLOW, ["sqlite3.OperationalError: unable to open database file"]),
        (AIRFLOW_LEVEL, ["Exception when executing TriggererJobRunner", "OSError: [Errno 98] Address already in use"]),
        (ARGUMENTS, ["unrecognized arguments: --no"]),
        (PANIC, ["panic: runtime error: invalid memory address"]),
        (OUT_OF_MEMORY, ["Terminating due to java.lang.OutOfMemoryError: Java heap space"]),
        ("", []),
    ],
)
def test_the_error_names_what_ended_the_server(log: str, named: list[str]) -> None:
    told = cause(log)
    assert len(told) == len(named)
    assert all(part in line for part, line in zip(named, told, strict=True))


def test_of_what_logs_no_error_the_last_lines_are_told() -> None:
    assert cause("\n\n".join(f"line {n}" for n in range(9))) == [f"line {n}" for n in range(4, 9)]


def test_a_line_is_cut_where_it_is_longer_than_a_person_reads() -> None:
    (told,) = cause("ERROR " + "x" * 1000)
    assert len(told) == 300
