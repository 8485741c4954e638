"""Secrets are found where they are planted. They are put together here, so that this file has none."""

from __future__ import annotations

import base64
import hashlib

import pytest

from tests.support.secret_scan import secrets_in

RANDOM = base64.b64encode(hashlib.sha256(b"planted").digest()).decode().strip("=")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("-----BEGIN RSA " + "PRIVATE KEY-----", "a private key"),
        ("-----BEGIN " + "PRIVATE KEY-----", "a private key"),
        ("id = AKIA" + "IOSFODNN7EXAMPLE", "an AWS access key"),
        ("x ghp_" + "a1B2" * 9, "a GitHub token"),
        ("glpat-" + "a1B2" * 5, "a GitLab token"),
        ("xoxb-" + "1234567890-abc", "a Slack token"),
        ("AIza" + "a1B2c" * 7, "a Google API key"),
        ("pypi-AgEIcHlwaS5vcmc" + "a1B2" * 8, "a PyPI token"),
        ("eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + ".c2lnbmF0dXJl", "a JSON web token"),
        (f"SHOP_PASSWORD={RANDOM}", "a random value for a secret's name"),
        (f'  "secretKey": "{RANDOM}",', "a random value for a secret's name"),
    ],
)
def test_a_planted_secret_is_found_by_its_line(line: str, kind: str) -> None:
    assert list(secrets_in(f"first\n{line}\n")) == [(2, kind)]


@pytest.mark.parametrize(
    "line",
    [
        "password = settings.password",
        "LYREBIRD_S3_SECRET_KEY: ${LYREBIRD_S3_SECRET_KEY:?see the head of docker-compose.yaml}",
        'token = "aaaaaaaaaaaaaaaaaaaaaaa1"',
        "    --hash=sha256:5ad689d53570ee1674193fd4f9bda065f0db3be9363a27d2a3406cc457b70b61",
        "-----BEGIN CERTIFICATE-----",
        f"PASSWORD={RANDOM}  # secret-scan: of a test's server",
    ],
)
def test_what_is_no_secret_or_is_said_to_be_none_passes(line: str) -> None:
    assert list(secrets_in(line)) == []
