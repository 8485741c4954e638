from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import skips
from tests.support.paths import ROOT
from tests.support.skips import STRICT, refuse, unexpected

CI = {STRICT: "1"}
UNCOMPILED = "`make setup` builds the compiled modules: not built"


def report(reason: str, **more: Any) -> Any:
    return SimpleNamespace(
        skipped=True, outcome="skipped", longrepr=("a.py", 7, f"Skipped: {reason}"), nodeid="a.py::test_a", **more
    )


@pytest.mark.parametrize(
    "reason",
    [
        "LYREBIRD_PROVE=1 pytest tests/prove/test_join_kills.py",
        "takes minutes: set LYREBIRD_PROVE=1",
        "two more servers: LYREBIRD_PROVE=1 pytest tests/integration/document",
        "mysql-5.6 is not on this machine: run `make prove-capture`",
    ],
)
def test_proofs_may_be_skipped_anywhere(reason: str) -> None:
    assert not unexpected(reason, CI)


def test_other_skips_are_failures_where_ci_runs() -> None:
    assert unexpected("there is no Kafka", CI)
    assert not unexpected("there is no Kafka", {})


@pytest.mark.parametrize("compiler", [None, "/usr/bin/cc"])
def test_compiled_modules_may_lack_where_no_compiler_is(compiler: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: compiler)
    assert unexpected(UNCOMPILED, CI) is (compiler is not None)


def test_a_refused_skip_is_a_failure_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STRICT, "1")
    refused, failing, proof = report("no reason"), report("known", wasxfail="known"), report("set LYREBIRD_PROVE=1")
    for each in (refused, failing, proof):
        refuse(each)
    assert (refused.outcome, failing.outcome, proof.outcome) == ("failed", "skipped", "skipped")
    assert "a.py::test_a was skipped" in refused.longrepr
    assert "no reason" in refused.longrepr


@pytest.mark.parametrize("why", ["", "not built"])
def test_what_is_marked_compiled_is_skipped_with_one_reason(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skips, "NOT_COMPILED", why)
    added: list[pytest.MarkDecorator] = []
    item: Any = SimpleNamespace(get_closest_marker=lambda _name: pytest.mark.compiled.mark, add_marker=added.append)
    skips.skip_uncompiled(item)
    assert [mark.kwargs["reason"] for mark in added] == ([UNCOMPILED] if why else [])


def test_ci_refuses_skips() -> None:
    assert f"export {STRICT}=1" in (ROOT / ".ci" / "run").read_text("utf-8")
