"""Who is warned that nobody looks at the server's certificate."""

from __future__ import annotations

import pytest

from include.source.database.tls import unverified
from include.source.definition import SourceDefinition


def source(host: str, **more: object) -> SourceDefinition:
    given = {"host": host, "port": 3306, "user": "u", "password": "p", "databases": ["shop"]}
    return SourceDefinition.model_validate(given | more)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "db.localhost"])
def test_this_machine_needs_no_certificate(host: str) -> None:
    assert unverified(source(host)) == []
    assert unverified(source(host, tls="off")) == []


@pytest.mark.parametrize("host", ["db", "10.0.0.7", "mysql.example.org", "0.0.0.0", "fe80::1", "localhost.example.org"])
@pytest.mark.parametrize("tls", ["off", "preferred", "required"])
def test_another_machine_that_nobody_verifies_is_warned_of(host: str, tls: str) -> None:
    (found,) = unverified(source(host, tls=tls))
    assert (found.place, found.level) == ("tls", "warn")
    assert f"is {tls}" in found.problem
    assert f"{host}:3306" in found.problem
    assert "verified" in found.fix


def test_a_verified_server_needs_no_warning() -> None:
    assert unverified(source("db", tls="verified")) == []


def test_a_fallback_elsewhere_is_warned_of() -> None:
    (found,) = unverified(source("127.0.0.1", fallbacks=["localhost:3307", "replica:3306"]))
    assert "replica:3306" in found.problem
    assert "localhost" not in found.problem
