"""Calls that no source file makes, each with its reason. Linters see names that are imported, not methods."""

from __future__ import annotations

import ast

import pytest

from tests.support.paths import ROOT

FOLDERS = ("include", "demo", "plugins", "dags", "spark_apps", "tests")
# They end the process when a group's coordinator moves or loads, or go the same way to the coordinator and are not
# needed: docs/adr/0001-offsets-of-a-group.md.
OF_GROUPS = {
    "alter_consumer_group_offsets",
    "delete_consumer_group_offsets",
    "delete_consumer_groups",
    "describe_consumer_groups",
    "list_consumer_group_offsets",
}


def calls(source: str) -> set[str]:
    """Attributes that are read from anything, and names that are given to getattr."""
    tree = list(ast.walk(ast.parse(source)))
    given = [node.args[1] for node in tree if isinstance(node, ast.Call) and _name(node) == "getattr" and node.args[1:]]
    return {node.attr for node in tree if isinstance(node, ast.Attribute)} | {
        str(node.value) for node in given if isinstance(node, ast.Constant)
    }


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


@pytest.mark.parametrize("folder", FOLDERS)
def test_offsets_of_a_group_are_asked_of_no_admin_client(folder: str) -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / folder).rglob("*.py"))
        if OF_GROUPS & calls(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "ask a consumer of the group: KafkaReader.committed"


def test_such_a_call_is_seen() -> None:
    assert OF_GROUPS & calls("client.list_consumer_group_offsets([asked])")
    assert OF_GROUPS & calls("getattr(client, 'describe_consumer_groups')([group])")


# The daemon's first act: nothing is open yet.
FORKS_FIRST = {"include/local/supervisor.py"}


def forks(source: str) -> bool:
    """Whether it makes a child that goes on with this process's memory: threads of clients are not in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in ("fork", "forkpty"):
            return True
        if not isinstance(node, ast.Call):
            continue
        name = _name(node)
        given = [each.value for each in node.args if isinstance(each, ast.Constant)]
        if name in ("get_context", "set_start_method") and given and given != ["spawn"]:
            return True
        if name == "ProcessPoolExecutor" and not any(each.arg == "mp_context" for each in node.keywords):
            return True
    return False


def test_no_client_outlives_a_fork_as_nothing_forks() -> None:
    product = [path for folder in FOLDERS[:-1] for path in (ROOT / folder).rglob("*.py")]
    found = {str(path.relative_to(ROOT)) for path in product if forks(path.read_text(encoding="utf-8"))}
    assert found == FORKS_FIRST


@pytest.mark.parametrize("source", ["os.fork()", "ProcessPoolExecutor(2)", 'multiprocessing.get_context("fork")'])
def test_a_fork_is_seen(source: str) -> None:
    assert forks(source)
    assert not forks('ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))')
