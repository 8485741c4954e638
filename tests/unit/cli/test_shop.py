"""What `lyrebird shop` refuses before it touches a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from demo.shop.command import command
from demo.shop.connection import ShopServer
from include.errors import SettingsError

VALUES = {
    "LYREBIRD_MYSQL_HOST": "127.0.0.1",
    "LYREBIRD_MYSQL_PORT": "23306",
    "LYREBIRD_SHOP_USER": "shop",
    "LYREBIRD_SHOP_PASSWORD": "not-shown",
}


def test_each_command_says_what_it_does() -> None:
    for name in ("apply", "run", "truth"):
        result = CliRunner().invoke(command, [name, "--help"])
        assert result.exit_code == 0
        assert "--json" in result.output
        assert "--database" in result.output


def test_two_ends_of_one_run_are_refused() -> None:
    result = CliRunner().invoke(command, ["run", "--seconds", "1", "--orders", "1"])
    assert isinstance(result.exception, SettingsError)
    assert str(result.exception).endswith("Give --seconds or --orders, not both.")


def test_a_rate_of_nothing_is_refused() -> None:
    assert CliRunner().invoke(command, ["run", "--rate", "0"]).exit_code == 2


def test_without_a_stack_the_error_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VALUES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path))
    result = CliRunner().invoke(command, ["truth"])
    assert isinstance(result.exception, SettingsError)
    assert "LYREBIRD_SHOP_PASSWORD" in str(result.exception)
    assert "lyrebird up" in str(result.exception)


def test_the_server_comes_from_the_environment_and_hides_its_password() -> None:
    server = ShopServer.from_environment("shop", VALUES)
    assert (server.host, server.port, server.user, server.database) == ("127.0.0.1", 23306, "shop", "shop")
    assert "not-shown" not in repr(server)


def test_a_port_that_is_no_number_is_refused() -> None:
    with pytest.raises(SettingsError, match="not a port"):
        ShopServer.from_environment("shop", {**VALUES, "LYREBIRD_MYSQL_PORT": "many"})


@pytest.mark.parametrize("name", ["", "a`b", "a b", "ä", "x" * 65])
def test_a_database_name_that_would_need_quoting_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="not a database's name"):
        ShopServer("127.0.0.1", 1, "shop", "", name)
