"""A registry behind TLS by an authority of its own, which asks who calls: settings as they stand in the section."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest
import yaml
from pydantic import SecretStr

from include.cli.lake.options import registry_of
from include.errors import Terminal
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Registry
from include.settings.deployment import Deployment
from include.store.memory import MemoryStore
from tests.support.tls.https_proxy import https_proxy

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
BASIC = "Basic " + base64.b64encode(b"lyrebird:open").decode()
WAYS = {"token": ("Bearer t0ken", {"token": "t0ken"}), "user": (BASIC, {"user": "lyrebird", "password": "open"})}


@pytest.mark.parametrize(("authorization", "who"), WAYS.values(), ids=WAYS)
def test_schemas_are_registered_and_read(
    registry_url: str, unique: str, tmp_path: Path, authorization: str, who: dict[str, str]
) -> None:
    with https_proxy(registry_url, tmp_path, authorization) as front:
        registry = ConfluentRegistry(Registry.model_validate({"url": front.url, "ca_file": front.authority, **who}))
        assert registry.schema(registry.register(f"{unique}-value", ORDER)) == ORDER
        registry.close()


def test_commands_of_the_lake_are_let_in_as_the_section_says(registry_url: str, unique: str, tmp_path: Path) -> None:
    with https_proxy(registry_url, tmp_path, "Bearer t0ken") as front:
        section = {"url": front.url, "ca_file": front.authority, "token": "t0ken"}
        (tmp_path / "deployment").mkdir()
        (tmp_path / "deployment" / "platform.yaml").write_text(yaml.safe_dump({"registry": section}), "utf-8")
        registry = registry_of(Deployment.load(tmp_path / "deployment", {}), MemoryStore())
        assert registry.schema(registry.register(f"{unique}-value", ORDER)) == ORDER


def test_who_is_not_let_in_is_told_so_and_shows_no_secret(registry_url: str, tmp_path: Path) -> None:
    with https_proxy(registry_url, tmp_path, "Bearer t0ken") as front:
        registry = ConfluentRegistry(Registry(url=front.url, ca_file=front.authority, token=SecretStr("an0ther")))
        with pytest.raises(Terminal, match=r"refuses.*Check `registry`") as refused:
            registry.schema(1)
        assert refused.value.details["status"] == 401
        assert "an0ther" not in str(refused.value)
        registry.close()


def test_an_unknown_authority_is_told_at_once(registry_url: str, tmp_path: Path) -> None:
    with https_proxy(registry_url, tmp_path, "Bearer t0ken") as front:
        registry = ConfluentRegistry(Registry(url=front.url, token=SecretStr("t0ken")))
        with pytest.raises(Terminal, match="ca_file") as refused:
            registry.schema(1)
        assert isinstance(refused.value.__cause__, ssl.SSLCertVerificationError)
        registry.close()
