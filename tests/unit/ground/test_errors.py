"""Errors: one line, the place, the next step; and they pickle, as Spark carries them between processes."""

from __future__ import annotations

import pickle

import pytest

from include import errors
from include.errors import BackPressure, Fenced, InvalidRecord, LyrebirdError, SettingsError, Terminal, Transient

KINDS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_pickling_with_all_that_it_carries(kind: type[LyrebirdError]) -> None:
    error = kind("it broke", fix="Mend it.", topic="t", offset=3)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), copy.message, copy.fix, dict(copy.details)) == (
        "it broke (topic='t', offset=3). Mend it.",
        "it broke",
        "Mend it.",
        {"topic": "t", "offset": 3},
    )


def test_an_error_is_one_line_whatever_it_quotes() -> None:
    assert str(Terminal("two\nlines", reason="a\nb", fix="Do\nthis.")) == r"two lines (reason='a\nb'). Do this."
    assert str(Terminal("plain")) == "plain"


def test_a_caller_decides_by_type() -> None:
    assert issubclass(Fenced, Terminal)
    assert issubclass(SettingsError, Terminal)
    for kind in (Transient, InvalidRecord, BackPressure):
        assert not issubclass(kind, Terminal)
        assert issubclass(kind, LyrebirdError)
