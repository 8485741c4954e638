"""docker-compose.yaml against the table of services, and against what Compose accepts (no daemon needed)."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from include.local.recipes.elasticsearch import _CONFIG
from include.local.recipes.mariadb import BINLOG
from include.local.services import SERVICES, Service
from include.settings.airflow_settings import SUPERVISION
from tests.support.paths import ROOT

FILE = ROOT / "docker-compose.yaml"
TEXT = FILE.read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
CONTAINERS: dict[str, dict[str, Any]] = COMPOSE["services"]

# Ports that a person or a client uses; the others stay inside a container.
PUBLISHED = ("mariadb", "mariadb_ads", "kafka", "registry", "s3", "elasticsearch", "smtp", "mail", "airflow")
# Containers that do one thing and end.
ONCE = {"s3-bucket", "airflow-init"}
TOP_KEYS = {"name", "services", "volumes", "configs"}
SERVICE_KEYS = {
    "build", "command", "configs", "depends_on", "environment", "healthcheck", "hostname", "image",
    "logging", "pid", "ports", "profiles", "restart", "stop_grace_period", "user", "volumes", "working_dir",
}  # fmt: skip
HEALTH_KEYS = {"test", "interval", "timeout", "retries", "start_period"}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}


def containers_of(row: Service) -> list[str]:
    return list(row.processes)


def test_airflow_has_the_settings_that_supervision_needs_and_one_host_s_name() -> None:
    for name in ("airflow-scheduler", "airflow-triggerer"):
        environment = CONTAINERS[name]["environment"]
        assert environment.items() >= SUPERVISION.items()
        assert environment["LYREBIRD_HOST"]


def test_the_file_of_passwords_is_never_committed() -> None:
    assert "for n in" in TEXT.split("> .env")[0]
    assert ".env" in (ROOT / ".gitignore").read_text("utf-8").splitlines()


def test_no_container_fills_the_disk() -> None:
    for name, container in CONTAINERS.items():
        assert {"max-size", "max-file"} <= set(container["logging"]["options"]), name
    environment = CONTAINERS["elasticsearch"]["environment"]
    marks = [line.split(": ") for line in _CONFIG.splitlines() if ".disk." in line]
    assert [environment[name] for name, _ in marks] == [mark for _, mark in marks]


@pytest.mark.parametrize("row", SERVICES, ids=lambda row: row.name)
def test_each_process_of_the_table_is_a_container_with_the_table_s_image(row: Service) -> None:
    for name in containers_of(row):
        assert CONTAINERS[name]["image"] == row.image


@pytest.mark.parametrize("row", [row for row in SERVICES if "lyrebird" not in row.image], ids=lambda row: row.name)
def test_the_image_s_tag_is_the_version_of_the_table(row: Service) -> None:
    assert row.image.rpartition(":")[2].removeprefix("v") == row.version


def test_what_pip_installs_in_the_image_is_the_version_of_the_table() -> None:
    pins = {line.split()[0] for line in (FILE.parent / "requirements.txt").read_text().splitlines() if line}
    assert {f"{row.artefact.name}=={row.version}" for row in SERVICES if hasattr(row.artefact, "name")} <= pins


def test_the_published_ports_are_the_table_s_on_loopback() -> None:
    defaults = {port.name: port.default for row in SERVICES for port in row.ports}
    published = {int(text.split(":")[1]) for one in CONTAINERS.values() for text in one.get("ports", ())}
    spark_master = 28079
    assert published == {defaults[name] for name in PUBLISHED} | {spark_master}
    texts = [text for one in CONTAINERS.values() for text in one.get("ports", ())]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", text) for text in texts)
    assert len(texts) == len(published)


def test_postgres_a_spark_master_and_a_worker_stand_beside_the_table() -> None:
    table = {name for row in SERVICES for name in row.processes}
    assert set(CONTAINERS) - table == {"postgres", "spark-master", "spark-worker"} | ONCE


def test_the_spark_master_takes_no_submissions_over_rest_as_they_ask_for_no_secret() -> None:
    assert "-Dspark.master.rest.enabled=false" in CONTAINERS["spark-master"]["environment"]["SPARK_DAEMON_JAVA_OPTS"]
    _, _, section = (ROOT / "docs" / "production.md").read_text().partition("## A secret for a Spark cluster")
    given = section.split("```")[1].split()
    assert {"spark.authenticate=true", "spark.master.rest.enabled=false"} <= set(given)


def test_every_lasting_container_has_a_health_check() -> None:
    for name, container in CONTAINERS.items():
        if name not in ONCE:
            assert {"test", "interval", "timeout", "retries"} <= set(container["healthcheck"]) <= HEALTH_KEYS, name
            assert container["healthcheck"]["test"][0] == "CMD", name


def test_every_store_keeps_its_data_in_a_declared_volume() -> None:
    for name in ("mariadb", "mariadb-ads", "kafka", "registry", "s3", "elasticsearch", "mail", "postgres"):
        assert any(mount.startswith(f"{name}:/") for mount in CONTAINERS[name]["volumes"]), name
    named = {
        mount.split(":")[0] for container in CONTAINERS.values() for mount in container["volumes"] if mount[0] != "."
    }
    assert named == set(COMPOSE["volumes"])


def test_images_are_pinned() -> None:
    bases = re.findall(r"FROM (\S+)", TEXT)
    for image in [*bases, *(container["image"] for container in CONTAINERS.values())]:
        tag = image.rpartition(":")[2]
        assert re.search(r"\d", tag), image
        assert tag != "latest"


def test_no_secret_stands_in_the_file() -> None:
    public = {"LYREBIRD_S3_ACCESS_KEY", "ROOT_ACCESS_KEY", "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"}
    seen = 0
    for container in CONTAINERS.values():
        for name, value in container.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|KEY|SQL_ALCHEMY", name) and name not in public:
                seen += 1
                assert re.search(r"\$\{LYREBIRD_[A-Z0-9_]+:\?[^}]+\}", value), name
    assert seen > 10
    assert re.findall(r"IDENTIFIED BY '(?!\$\{)", TEXT) == []


def test_every_variable_is_required_and_named_in_the_recipe_at_the_head() -> None:
    head = TEXT.split("\nname:")[0]
    used = set(re.findall(r"(?<!\$)\$\{(\w+)([^}]*)\}", TEXT))
    assert used
    for name, rule in used:
        assert rule.startswith(":?"), name
        assert name.removeprefix("LYREBIRD_") in head, name
    assert re.findall(r"(?<!\$)\$[A-Za-z_]\w*", TEXT.removeprefix(head)) == []


def test_the_file_has_only_keys_and_references_that_compose_accepts() -> None:
    assert {key for key in COMPOSE if not key.startswith("x-")} == TOP_KEYS
    for name, container in CONTAINERS.items():
        assert set(container) <= SERVICE_KEYS, name
        assert isinstance(container.get("command", []), list), name
        assert all(isinstance(value, str) for value in container.get("environment", {}).values()), name
        for other, how in container.get("depends_on", {}).items():
            assert other in CONTAINERS, name
            assert how["condition"] in CONDITIONS, name
            if how["condition"] == "service_healthy":
                assert "healthcheck" in CONTAINERS[other], name
        for config in container.get("configs", ()):
            assert config["source"] in COMPOSE["configs"], name
        if "pid" in container:
            assert container["pid"].removeprefix("service:") in CONTAINERS, name


def test_mariadb_writes_the_same_binlog_as_natively() -> None:
    for row in SERVICES:
        if row.program == "mariadb":
            assert set(BINLOG) <= set(CONTAINERS[row.name]["command"])


def test_only_an_optional_service_waits_for_its_profile() -> None:
    profiled = {name for name, container in CONTAINERS.items() if container.get("profiles")}
    assert profiled == {name for row in SERVICES if row.optional for name in row.processes}


def test_each_server_of_mariadb_has_a_volume_of_its_own() -> None:
    volumes = [CONTAINERS[row.name]["volumes"] for row in SERVICES if row.program == "mariadb"]
    assert len(volumes) == len({str(each) for each in volumes}) == 2


def test_compose_itself_accepts_the_file_where_it_is_installed(tmp_path: Path) -> None:
    docker = shutil.which("docker") or "false"
    if subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode != 0:
        # The checks above hold everywhere; Compose's own opinion is had where it is installed.
        assert COMPOSE["services"]
        return
    env = tmp_path / "env"
    env.write_text("".join(f"{name}=x\n" for name in set(re.findall(r"\$\{(\w+):", TEXT))))
    argv = [docker, "compose", "--env-file", str(env), "-f", str(FILE), "config", "--quiet"]
    told = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
