"""Compiled modules count as there only where all of them are, and of these sources."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from include.record.native import why_not


@pytest.mark.parametrize("missing", ["_decoder", "_events"])
def test_half_of_the_libraries_count_as_none(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def loaded(name: str) -> SimpleNamespace:
        if name.endswith(missing):
            raise ModuleNotFoundError(name)
        return SimpleNamespace(FORM=3)

    monkeypatch.delenv("LYREBIRD_NATIVE", raising=False)
    monkeypatch.setattr("include.record.native.importlib.import_module", loaded)
    assert why_not("a._decoder", "a._events", form=3) == "not built"
    assert why_not("a._other", form=3) == ""


def test_libraries_of_another_release_count_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LYREBIRD_NATIVE", raising=False)
    monkeypatch.setattr("include.record.native.importlib.import_module", lambda _: SimpleNamespace())
    assert why_not("a._decoder", form=1) == "built from other sources than these: `make setup`"


def test_a_library_that_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(name: str) -> SimpleNamespace:
        raise ImportError("undefined symbol")

    monkeypatch.delenv("LYREBIRD_NATIVE", raising=False)
    monkeypatch.setattr("include.record.native.importlib.import_module", loaded)
    assert why_not("a._decoder", form=1) == "cannot be loaded: undefined symbol"


def test_the_environment_turns_compiled_modules_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYREBIRD_NATIVE", "0")
    assert why_not("include.record.native._avro", form=1) == "LYREBIRD_NATIVE is 0"
