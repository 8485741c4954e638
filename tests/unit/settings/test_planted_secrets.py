"""A secret in each setting that may be one: no command prints it, and no file that one leaves has it."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import html
import importlib
import inspect
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from pydantic import BaseModel, SecretStr

import include
from include.cli.main import main
from include.document.database import DatabaseAddress
from include.errors import LyrebirdError
from include.log.kafka.errors import ClientOptions
from include.log.kafka.log import KafkaAdmin, KafkaWriter
from include.log.kafka.offsets import KafkaOffsets
from include.log.planning.survey import KafkaSurvey
from include.outbox.sender import MailSettings
from include.policy.declared import _Declared
from include.settings.connections import Kafka
from include.settings.deployment import Deployment
from include.settings.secret import is_secret
from include.source.definition import SourceDefinition
from tests.support.planted import appearances, commands_of, files_below, planted
from tests.support.planted_deployment import KAFKA, PLACES, plant_deployment, secret_fields
from tests.support.shipped_environment import ENV

# They read what stands at the place of another model.
READERS: dict[type[BaseModel], type[BaseModel]] = {DatabaseAddress: SourceDefinition, _Declared: SourceDefinition}
# Of records, rows and documents; a writer's mark in a table's log.
NO_SECRETS = {"key", "join_key", "client_key", "kms_key", "TableWork.token"}

COMMANDS = (
    "check",
    "status",
    "doctor",
    "staus",
    "capture check --source shop",
    "capture status --source shop",
    "capture policy --source shop",
    "capture request-snapshot --source shop",
    "lake policy",
    "lake status",
    "lake cat raw/x",
    "lake expire assembled_order --generation 1 --group raw --yes",
    "table status",
    "table files cdc.shop.shop.orders",
    "documents check",
    "documents status",
    "documents assemble --key 1",
    "join status",
    "eventtime status",
    "state inspect order_rows",
    "index check orders",
    "index status orders",
    "index mapping orders",
    "search one order 1",
    "search popular",
    "audit chain --all",
    "audit search assembled_order",
)


class Refusing(BaseHTTPRequestHandler):
    """A server that wants another login."""

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        text = b'{"error": {"type": "security_exception", "reason": "unable to authenticate"}, "status": 401}'
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what the test prints is looked at."""


@pytest.fixture(scope="module")
def refusing() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@dataclasses.dataclass
class Deployed:
    """The shipped deployment with a secret in each setting, and these by their places."""

    folder: Path
    state: Path
    secrets: dict[str, str]


@pytest.fixture(params=["by password", "by key"])
def deployed(
    request: pytest.FixtureRequest, refusing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Deployed:
    found = Deployed(
        tmp_path / "deployment", tmp_path / "state", plant_deployment(tmp_path / "deployment", request.param)
    )
    addresses = dict.fromkeys(("LYREBIRD_REGISTRY", "LYREBIRD_ELASTICSEARCH", "LYREBIRD_S3"), refusing)
    folders = {"LYREBIRD_STATE": found.state, "LYREBIRD_DEPLOYMENT": found.folder, "HOME": tmp_path}
    for name, value in {**ENV, **addresses, **folders}.items():
        monkeypatch.setenv(name, str(value))
    return found


def classes() -> Iterator[type[Any]]:
    """Of the library."""
    for info in pkgutil.walk_packages(include.__path__, "include."):
        if not info.name.endswith("__main__"):
            module = importlib.import_module(info.name)
            yield from (
                each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == info.name
            )


@pytest.mark.timeout(120)
def test_each_model_that_has_a_secret_is_planted_with_it() -> None:
    models = [found for found in classes() if issubclass(found, BaseModel)]
    having = {model for model in models if secret_fields(model)}
    assert {READERS.get(model, model) for model in having} == set(PLACES.values())
    assert {model for model in having if model in READERS} == set(READERS)
    # A key of this name in a model is a `Secret`, or is looked for by the tests below.
    plain = {f"{model.__name__}.{name}" for model in models for name in model.model_fields if is_secret(name)}
    plain -= {f"{model.__name__}.{name}" for model in having for name in secret_fields(model)}
    assert {name for name in plain if name.partition(".")[2] not in NO_SECRETS} == {"StoreSettings.access_key"}


@pytest.mark.timeout(120)
def test_no_dataclass_shows_a_secret_or_the_options_of_clients() -> None:
    shown = {
        f"{each.__name__}.{field.name}": field
        for each in classes()
        if dataclasses.is_dataclass(each)
        for field in dataclasses.fields(each)
        if field.repr and str(field.type).startswith(("str", "dict", "Mapping", "Options"))
    }
    assert len(shown) > 100
    assert any(name.startswith("StatesPlan.") for name in shown)
    named = {name for name, field in shown.items() if is_secret(field.name) and field.name not in NO_SECRETS}
    named |= {name for name in shown if re.search(r"[._](options|secrets|settings|connections)$", name)}
    assert named - NO_SECRETS == set()
    assert "hush" not in repr(MailSettings("h", password="hush", token="hush"))


def test_what_is_planted_arrives(deployed: Deployed) -> None:
    deployment, arrived = Deployment.load(deployed.folder, dict(os.environ)), set[str]()
    for path, model in PLACES.items():
        read = deployment.part(path[1:], model)
        values = [getattr(read, name) for name in secret_fields(model)]
        arrived |= {value.get_secret_value() for value in values if isinstance(value, SecretStr)}
        arrived |= {getattr(read, "access_key", None) or ""} - {""}
    arrived |= {str(deployment.one("kafka", Kafka).options[name]) for name in KAFKA}
    assert arrived == set(deployed.secrets.values())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_shows_no_secret(
    command: str,
    request: pytest.FixtureRequest,
    deployed: Deployed,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    json_too = ["--json"] if "by key" in request.node.name else []
    monkeypatch.setattr("sys.argv", ["lyrebird", *command.split(), *json_too])
    # Some commands end so.
    with contextlib.suppress(SystemExit):
        main()
    said = "".join(capfd.readouterr())
    assert said
    seen = [("its output", said.encode()), ("its log", caplog.text.encode()), *files_below(deployed.state)]
    assert appearances(deployed.secrets, seen) == []


CLIENTS: dict[str, Callable[[str, ClientOptions], object]] = {
    "survey": KafkaSurvey,
    "admin": lambda *place: KafkaAdmin(*place).names(),
    "offsets": lambda bootstrap, options: KafkaOffsets(bootstrap, "group", options),
    "writer": lambda bootstrap, options: KafkaWriter(bootstrap, "id", options),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_of_kafka_refuses_is_told_without_its_value(deployed: Deployed, client: str) -> None:
    kafka = Deployment.load(deployed.folder, dict(os.environ)).one("kafka", Kafka)
    lost = planted("misplaced")
    refusals: tuple[tuple[ClientOptions, str], ...] = (
        (kafka.options, "ssl.key.pem failed: not in PEM format"),
        ({"sasl.passwrd": lost}, 'No such configuration property: "sasl.passwrd"'),
        ({"security.protocol": lost}, 'Invalid value "…" for configuration property "security.protocol"'),
        # The client cuts off its own words here.
        ({"security.protocol": lost * 20}, 'Invalid value "…'),
        ({"security.protocol": "SASL_SSL", "sasl.mechanisms": lost}, "Unsupported SASL mechanism: …"),
        ({"partition.assignment.strategy": lost}, "Unsupported partition.assignment.strategy: …"),
    )
    for options, reason in refusals:
        with pytest.raises(LyrebirdError, match="Kafka refuses this") as refused:
            CLIENTS[client](kafka.bootstrap, options)
        assert reason in refused.value.details["reason"]
        said = "".join(traceback.format_exception(refused.value)) + repr(refused.value)
        assert appearances(deployed.secrets | {"misplaced": lost}, [("the error", said.encode())]) == []


def within_numbers(secret: str) -> str:
    return str(list(f"<{secret}>".encode()))


WRITTEN: dict[str, Callable[[str], str]] = {
    "plain": str,
    "in a URL": lambda secret: f"http://u:{quote(secret, safe='')}@h",
    "in JSON in JSON": lambda secret: json.dumps({"spec": json.dumps({"password": secret})}),
    "in YAML": lambda secret: yaml.safe_dump({"password": secret}),
    "on a page": html.escape,
    "as Python": repr,
    "a login": lambda secret: base64.b64encode(f"lyrebird:{secret}".encode()).decode(),
    "another login": lambda secret: base64.b64encode(f"capture:{secret}".encode()).decode(),
    "a third login": lambda secret: base64.b64encode(f"up:{secret}".encode()).decode(),
    "hexadecimal": lambda secret: secret.encode().hex(),
    "bytes of a JVM": within_numbers,
}


@pytest.mark.parametrize("way", WRITTEN)
def test_the_search_finds_a_secret_in_a_log_however_it_is_written(tmp_path: Path, way: str) -> None:
    secrets = {kind: planted(kind) for kind in ("kafka.sasl.password", "registry.token")}
    (tmp_path / "app.log").write_text(f"one line\nanother {WRITTEN[way](secrets['registry.token'])} of it\n")
    (found,) = appearances(secrets, files_below(tmp_path))
    assert found.startswith(f"registry.token in {tmp_path / 'app.log'}: ")
    assert appearances({"kafka.sasl.password": secrets["kafka.sasl.password"]}, files_below(tmp_path)) == []


def test_the_search_finds_a_secret_as_programs_make_them(tmp_path: Path) -> None:
    secret = "ab-cdefg_hijklm-nopqrs_tuvw-xyz"
    (tmp_path / "app.log").write_text(f"http://u:{quote(secret, safe='')}@h")
    assert len(appearances({"a token": secret}, files_below(tmp_path))) == 1


def test_what_goes_while_the_search_looks_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, stays = tmp_path / "blocks", tmp_path / "logs" / "app.log"
    for folder in (gone / "00", stays.parent):
        folder.mkdir(parents=True)
    stays.write_text("one line")
    looked = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path) == str(gone):
            shutil.rmtree(gone.rename(tmp_path.with_suffix(".gone")))
        return looked(path)

    monkeypatch.setattr("os.scandir", scandir)
    assert (str(stays), b"one line") in list(files_below(tmp_path))
    assert not gone.exists()


def test_what_the_search_may_not_look_at_is_no_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scandir(path: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", scandir)
    with pytest.raises(PermissionError):
        list(files_below(tmp_path))


def test_the_search_looks_at_names_of_files_and_at_commands(tmp_path: Path) -> None:
    secrets = {kind: planted(kind) for kind in ("a file", "a command")}
    (tmp_path / "afilePlanted23").touch()
    words = [sys.executable, "-c", "import time; time.sleep(60)", secrets["a command"]]
    assert appearances(secrets, commands_of(os.getpid())) == []
    with subprocess.Popen(words) as process:
        found = appearances(secrets, [*files_below(tmp_path), *commands_of(os.getpid())])
        process.kill()
    assert [each.partition(" in ")[0] for each in found] == ["a file", "a command"]
