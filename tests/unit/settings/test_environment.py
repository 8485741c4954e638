"""Where LYREBIRD_* values come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.errors import SettingsError
from include.settings.environment import (
    PROJECT_ROOT,
    cache_folder,
    checkout,
    deployment_folder,
    environment,
    require,
    state_folder,
)


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "env").write_text("LYREBIRD_A=from file\nLYREBIRD_B=x=y\n# no value\nOTHER=1\n", encoding="utf-8")
    return {"LYREBIRD_STATE": str(tmp_path)}


def test_the_process_wins_over_the_file_that_up_wrote(state: dict[str, str]) -> None:
    found = environment({**state, "LYREBIRD_A": "from process", "PATH": "/bin"})
    assert found == {**state, "LYREBIRD_A": "from process", "LYREBIRD_B": "x=y"}
    assert require("LYREBIRD_B", state) == "x=y"


def test_a_server_of_one_s_own_does_not_get_the_login_of_the_local_one(tmp_path: Path) -> None:
    local = {"LYREBIRD_SEARCH": "http://l", "LYREBIRD_SEARCH_USER": "u", "LYREBIRD_SEARCH_PASSWORD": "p"}
    others = {"LYREBIRD_REGISTRY": "http://r", "LYREBIRD_REGISTRY_USER": "v", "LYREBIRD_REGISTRY_PASSWORD": "q"}
    text = "".join(f"{name}={value}\n" for name, value in (local | others).items())
    (tmp_path / "env").write_text(text, encoding="utf-8")
    state = {"LYREBIRD_STATE": str(tmp_path)}

    def found(**process: str) -> dict[str, str]:
        return environment(state | process)

    own = {"LYREBIRD_SEARCH": "https://own"}
    assert found(**own) == state | others | own
    assert found(**own, LYREBIRD_SEARCH_USER="w") == state | others | own | {"LYREBIRD_SEARCH_USER": "w"}
    login = {"LYREBIRD_SEARCH_USER": "w", "LYREBIRD_SEARCH_PASSWORD": "s"}
    assert found(**own, **login) == state | others | own | login
    # The local one's own address says nothing else.
    assert found(LYREBIRD_SEARCH="http://l") == found() == state | others | local
    assert found(**login) == state | others | local | login


def test_a_password_in_the_file_whose_user_is_not_there_is_nobody_s(tmp_path: Path) -> None:
    # `up` writes all passwords, and the names of what it starts. The broker is one that a former release has started.
    names = {"LYREBIRD_KAFKA": "h:1", "LYREBIRD_MYSQL_ROOT_PASSWORD": "r"}
    lines = [f"{name}={value}" for name, value in names.items()]
    lines += ["LYREBIRD_REGISTRY_PASSWORD=q", "LYREBIRD_KAFKA_PASSWORD=q"]
    (tmp_path / "env").write_text("\n".join(lines), encoding="utf-8")
    state = {"LYREBIRD_STATE": str(tmp_path), **names}
    assert environment({"LYREBIRD_STATE": str(tmp_path)}) == state
    own = {"LYREBIRD_REGISTRY": "https://own"}
    assert environment(state | own) == state | own
    login = {"LYREBIRD_REGISTRY_USER": "w", "LYREBIRD_REGISTRY_PASSWORD": "s"}
    assert environment(state | own | login) == state | own | login


def test_without_a_file_the_process_is_all(tmp_path: Path) -> None:
    env = {"LYREBIRD_STATE": str(tmp_path / "none"), "LYREBIRD_KAFKA": "h:1"}
    assert environment(env) == env


def test_a_value_that_nobody_set_says_what_to_do(state: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=r"LYREBIRD_NONE.*lyrebird up"):
        require("LYREBIRD_NONE", state)


def test_an_installed_package_keeps_its_state_in_the_current_folder_and_is_no_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert checkout() == PROJECT_ROOT
    monkeypatch.setattr("include.settings.environment._INSTALLED", True)
    monkeypatch.chdir(tmp_path)
    assert state_folder({}) == tmp_path / ".lyrebird"
    with pytest.raises(SettingsError, match="in a checkout"):
        checkout()


def test_folders_have_defaults_and_may_be_moved() -> None:
    assert state_folder({}) == PROJECT_ROOT / ".lyrebird"
    assert deployment_folder({}) == PROJECT_ROOT / "include" / "deployment"
    assert cache_folder({}).name == "lyrebird"
    assert state_folder({"LYREBIRD_STATE": "/s"}) == Path("/s")
    assert deployment_folder({"LYREBIRD_DEPLOYMENT": "/d"}) == Path("/d")
    assert cache_folder({"LYREBIRD_CACHE": "/c"}) == Path("/c")
