"""Secrets are planted into every section that has some; no error, repr or output shows one."""

from __future__ import annotations

import copy
import shutil
import traceback
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
import yaml
from pydantic import SecretStr, ValidationError

from include.cli.main import main
from include.document.database import DatabaseAddress, Replica
from include.errors import LyrebirdError, SettingsError
from include.log.http import Http
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Elasticsearch, Kafka, Registry, StoreSettings
from include.settings.deployment import Deployment, Strict
from include.settings.secret import REVEALED, is_secret, revealed, without_login
from include.source.definition import SourceDefinition
from tests.support.paths import ROOT
from tests.support.shipped_environment import ENV

# In no path that a trace shows.
PLANTED = f"planted-{token_hex(8)}"
SECTIONS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "kafka": (
        Kafka,
        {
            "bootstrap": "h:1",
            "options": {
                "sasl.username": "u",
                "sasl.password": f"{PLANTED}-1",
                "ssl.key.pem": f"{PLANTED}-2",
                "ssl.key.password": f"{PLANTED}-3",
                "sasl.oauthbearer.client.secret": f"{PLANTED}-4",
            },
        },
    ),
    "kafka_user": (Kafka, {"bootstrap": "h:1", "user": "u", "password": f"{PLANTED}-1"}),
    "registry": (Registry, {"url": "http://r:1", "user": "u", "password": f"{PLANTED}-1"}),
    "registry_token": (Registry, {"url": "http://r:1", "token": f"{PLANTED}-1"}),
    "registry_url": (Registry, {"url": f"http://u:{PLANTED}-1@r:1/path"}),
    "elasticsearch": (Elasticsearch, {"url": "http://e:1", "user": "u", "password": f"{PLANTED}-1"}),
    "elasticsearch_key": (Elasticsearch, {"url": "http://e:1", "api_key": f"{PLANTED}-1"}),
    "elasticsearch_url": (Elasticsearch, {"url": [f"http://u:{PLANTED}-1@e:1", f"http://u:{PLANTED}-1@f:1"]}),
    "store": (
        StoreSettings,
        {
            "endpoint": "http://s:1",
            "bucket": "b",
            "access_key": f"{PLANTED}-1",
            "secret_key": f"{PLANTED}-2",
            "session_token": f"{PLANTED}-3",
        },
    ),
    "source": (
        SourceDefinition,
        {
            "host": "h",
            "port": 3306,
            "user": "u",
            "password": f"{PLANTED}-1",
            "mask_salt": f"{PLANTED}-2 of sixteen and more",
            "databases": ["d"],
            "filter": {"users": {"masks": {"email": "hash"}}},
        },
    ),
    "replica": (Replica, {"host": "h", "user": "u", "password": f"{PLANTED}-1"}),
    "address": (DatabaseAddress, {"host": "h", "user": "u", "password": f"{PLANTED}-1"}),
}


def spoilt(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same values with each key left out, misspelt, or of another type, on every level."""
    for key, inner in value.items():
        rest = {name: each for name, each in value.items() if name != key}
        yield rest
        yield {**rest, f"{key}x": inner}
        for wrong in ([inner], {"x": inner}, {str(inner): 1}, None, True, -7.5, ""):
            yield {**rest, key: wrong}
        if isinstance(inner, dict):
            yield from ({**rest, key: each} for each in spoilt(inner))


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


@pytest.mark.parametrize("filled", [False, True], ids=["in the file", "from the environment"])
@pytest.mark.parametrize("name", SECTIONS)
def test_no_error_shows_a_secret(tmp_path: Path, name: str, filled: bool) -> None:
    model, values = SECTIONS[name]
    refused = 0
    for number, given in enumerate([*spoilt(values), {"one": values}]):
        text, env = yaml.safe_dump({"s": given}), {}
        if filled:
            env = {f"LYREBIRD_{end}": f"{PLANTED}-{end}" for end in "1234"}
            for end in env:
                text = text.replace(env[end], f"${{{end}}}")
        file = tmp_path / f"{number}" / "a.yaml"
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        try:
            said = repr(Deployment.load(file.parent, env).one("s", model))
        except SettingsError as error:
            refused += 1
            said = shown(error)
        assert PLANTED not in said, given
    assert refused > 5


@pytest.mark.parametrize(
    "name", ["kafka", "registry", "registry_token", "elasticsearch_key", "store", "replica", "address"]
)
def test_who_writes_a_secret_for_a_task_has_to_say_so(name: str) -> None:
    model, values = SECTIONS[name]
    settings = model.model_validate(values)
    with pytest.raises(ValueError, match="REVEALED") as refused:
        settings.model_dump_json()
    assert PLANTED not in shown(refused.value)
    assert model.model_validate_json(settings.model_dump_json(context=REVEALED, exclude_unset=True)) == settings


@pytest.mark.parametrize("options", [{"sasl.passwrd": PLANTED}, {}], ids=["misspelt", "none"])
def test_options_of_any_name_are_written_by_who_says_so(options: dict[str, Any]) -> None:
    kafka = Kafka(bootstrap="h:1", options=options)
    with pytest.raises(ValueError, match="REVEALED") as refused:
        kafka.model_dump_json()
    assert PLANTED not in shown(refused.value)
    assert Kafka.model_validate_json(kafka.model_dump_json(context=REVEALED)) == kafka


@pytest.mark.parametrize("name", SECTIONS)
def test_a_model_shows_no_secret(name: str) -> None:
    model, values = SECTIONS[name]
    assert PLANTED not in repr(model.model_validate(copy.deepcopy(values)))


@pytest.mark.parametrize(
    "text",
    [f"a: {{{PLANTED}: [\n", f"a:\n  password: {PLANTED}: x\n", f"a: {{{{ {PLANTED} }}}}\n"],
    ids=["a list without end", "two colons", "two braces"],
)
def test_a_file_that_is_no_yaml_shows_no_line_of_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        Deployment.load(tmp_path, {}).has("a")
    assert PLANTED not in shown(refused.value)


def test_a_registry_that_does_not_answer_is_told_of_without_its_login() -> None:
    registry = ConfluentRegistry(f"http://u:{PLANTED}@127.0.0.1:1/api")
    with pytest.raises(LyrebirdError) as refused:
        registry.schema(1)
    assert refused.value.details["url"].startswith("http://127.0.0.1:1/api")
    assert PLANTED not in shown(refused.value)


def test_what_is_no_address_is_told_of_without_its_login() -> None:
    with pytest.raises(SettingsError) as refused:
        Http(f"ftp://u:{PLANTED}@h/", {}, 1.0)
    assert refused.value.details["got"] == "ftp://h/"
    assert PLANTED not in shown(refused.value)


def test_a_login_in_an_address_becomes_user_and_password() -> None:
    registry = Registry(url="https://us%40er:p%3Aw@h:1/a")
    assert (registry.url, registry.user, revealed(registry.password)) == ("https://h:1/a", "us@er", "p:w")
    assert Registry(url="http://u:p@h", token=SecretStr("t")).user is None
    assert revealed(Registry(url="http://u:p@h", user="v", password=SecretStr("q")).password) == "q"
    search = Elasticsearch(url="http://u:p@a:1, http://u:p@b:1")
    assert (search.urls, search.user, revealed(search.password)) == (("http://a:1", "http://b:1"), "u", "p")


@pytest.mark.parametrize("section", ["registry", "elasticsearch"])
def test_the_shipped_sections_log_nobody_in_where_no_login_is_named(section: str) -> None:
    model: Any = {"registry": Registry, "elasticsearch": Elasticsearch}[section]
    name = f"LYREBIRD_{section.upper()}"
    shipped = ROOT / "include" / "deployment"

    def of(url: str, **more: str) -> tuple[str | None, str | None]:
        found = Deployment.load(shipped, {name: url, **more}).one(section, model)
        return found.user, revealed(found.password)

    assert of("http://h:1") == (None, None)
    assert of("http://u:p@h:1") == ("u", "p")
    assert of("http://h:1", **{f"{name}_USER": "v", f"{name}_PASSWORD": "q"}) == ("v", "q")
    with pytest.raises(SettingsError, match="a password belongs to a user"):
        of("http://h:1", **{f"{name}_PASSWORD": "q"})
    with pytest.raises(SettingsError, match="a user needs a password"):
        of("http://h:1", **{f"{name}_USER": "v"})


def test_a_user_of_kafka_logs_in_over_tls_but_on_this_machine() -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
    for bootstrap in ("h:1", "h", "127.0.0.1:1,h:1", "[::2]:1"):
        found = Kafka(bootstrap=bootstrap, user="u", password=SecretStr("p"))
        assert found.options == {"security.protocol": "SASL_SSL", **login}
    for bootstrap in ("127.0.0.1:1", "LOCALHOST", "localhost:1, [::1]:2", "127.0.0.1:1,"):
        found = Kafka(bootstrap=bootstrap, user="u", password=SecretStr("p"))
        assert found.options == {"security.protocol": "SASL_PLAINTEXT", **login}
    again = Kafka.model_validate_json(found.model_dump_json(context=REVEALED))
    assert (again, again.options) == (found, found.options)


def test_options_of_kafka_say_how_its_user_logs_in() -> None:
    given: dict[str, str | int | bool] = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "linger.ms": 5,
    }
    found = Kafka(bootstrap="h:1", user="u", password=SecretStr("p"), options=given)
    assert found.options == {**given, "sasl.username": "u", "sasl.password": "p"}
    for protocol in ("SSL", "plaintext"):
        with pytest.raises(ValueError, match=f"does not log in by security.protocol {protocol.upper()}"):
            Kafka(bootstrap="h:1", user="u", password=SecretStr("p"), options={"security.protocol": protocol})
    for name in ("sasl.username", "sasl.password"):
        with pytest.raises(ValueError, match=f"user, password and the option {name}: which of them"):
            Kafka(bootstrap="h:1", user="u", password=SecretStr("p"), options={name: "x"})


def test_a_user_and_a_password_of_kafka_come_together_and_an_empty_user_is_none() -> None:
    assert Kafka.model_validate({"bootstrap": "h:1", "user": "", "password": ""}).options == {}
    for password in ({}, {"password": ""}):
        with pytest.raises(ValueError, match="a user needs a password"):
            Kafka.model_validate({"bootstrap": "h:1", "user": "u", **password})
    for user in ({}, {"user": ""}):
        with pytest.raises(ValueError, match="a password belongs to a user"):
            Kafka.model_validate({"bootstrap": "h:1", "password": "p", **user})


def test_addresses_that_name_different_users_are_refused() -> None:
    with pytest.raises(ValueError, match="different users"):
        Elasticsearch(url="http://u:p@a:1,http://v:p@b:1")


@pytest.mark.parametrize("password", ["Top,Secret", "Top Secret", "Top%2FSecret", "Top:Secret"])
def test_a_login_is_taken_from_an_address_whatever_its_password_has(password: str) -> None:
    found = Registry(url=f"http://u:{password}@r:1/path")
    assert (found.url, revealed(found.password)) == ("http://r:1/path", password.replace("%2F", "/"))
    nodes = Elasticsearch.model_validate({"url": [f"http://u:{password}@e:1", f"http://u:{password}@f:1"]})
    assert nodes.urls == ("http://e:1", "http://f:1")


@pytest.mark.parametrize("password", ["Top/Secret", "Top?Secret", "Top#Secret", "1/Secret", "Top/Sec@ret", "[Secret"])
@pytest.mark.parametrize("section", [Registry, Elasticsearch])
def test_an_address_whose_login_is_not_clear_is_refused_without_it(section: Any, password: str) -> None:
    with pytest.raises(ValidationError, match=r"an @ behind the host|not an address") as refused:
        section(url=f"http://u:{password}@r:1")
    assert "ecret" not in str(refused.value.errors()[0]["msg"])
    with pytest.raises(SettingsError) as strange:
        Http(f"http://u:{password}@r", {}, 1.0)
    assert "ecret" not in str(strange.value)


def test_an_address_that_takes_no_login_is_refused_with_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        f"store: {{endpoint: 'http://k:{PLANTED}@s:1', bucket: b}}\nkafka: {{bootstrap: 'k:{PLANTED}@h:1'}}\n",
        encoding="utf-8",
    )
    deployment = Deployment.load(tmp_path, {})
    for section, model in (("store", StoreSettings), ("kafka", Kafka)):
        with pytest.raises(SettingsError, match="takes no login") as refused:
            deployment.one(section, model)
        assert PLANTED not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["password", "sasl.password", "mask_salt", "secret_key", "access_key", "api_key", "sasl.jaas.config", "key"]
)
def test_a_name_tells_that_it_holds_a_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["user", "client_key", "kms_key", "join_keys", "port", "bootstrap"])
def test_a_name_tells_that_it_holds_none(name: str) -> None:
    assert not is_secret(name)


def test_only_a_login_is_taken_from_a_text() -> None:
    assert without_login("see http://u:p@h/x@y?z=a@b and https://h/") == "see http://h/x@y?z=a@b and https://h/"


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped deployment with a secret of each kind."""
    shutil.copytree(ROOT / "include" / "deployment", tmp_path / "d")
    secrets = {name: f"{PLANTED}-{name}" for name in ENV if "PASSWORD" in name or "KEY" in name}
    for name, value in {**ENV, **secrets}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LYREBIRD_REGISTRY", f"http://u:{PLANTED}@127.0.0.1:2")
    monkeypatch.setenv("LYREBIRD_ELASTICSEARCH", f"http://u:{PLANTED}@127.0.0.1:3")
    return tmp_path / "d"


@pytest.mark.parametrize("option", [[], ["--json"]], ids=["text", "json"])
def test_check_shows_no_secret(
    deployed: Path, option: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["lyrebird", "check", "--deployment", str(deployed), *option])
    assert main() == 0
    assert PLANTED not in "".join(capfd.readouterr())
    platform = deployed / "platform.yaml"
    right = platform.read_text(encoding="utf-8")
    for key in ("bucket", "bootstrap", "endpoint", "url"):
        platform.write_text(right.replace(f"  {key}:", f"  {key}x:"), encoding="utf-8")
        assert main() == 1
        said = "".join(capfd.readouterr())
        assert f"{key}x" in said
        assert PLANTED not in said


def test_a_definition_shows_its_input_in_no_error_of_its_own() -> None:
    class Login(Strict):
        password: int

    with pytest.raises(ValueError, match="password") as refused:
        Login.model_validate({"password": PLANTED})
    assert PLANTED not in shown(refused.value)
