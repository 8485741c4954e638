"""The section `store`: credentials are whole, of one kind, or left to the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from include.errors import SettingsError
from include.settings.connections import StoreSettings
from include.settings.deployment import Deployment

PLACE = {"endpoint": "https://s3.example.com", "bucket": "lake"}
KEYS = {"access_key": "a", "secret_key": "very-secret"}


@pytest.mark.parametrize("credentials", [{}, KEYS, KEYS | {"session_token": "t"}, {"profile": "lake"}])
def test_keys_are_one_way_among_others(credentials: dict[str, Any]) -> None:
    found = StoreSettings.model_validate(PLACE | credentials)
    assert "very-secret" not in repr(found)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"access_key": "a"}, "come together"),
        ({"secret_key": "s"}, "come together"),
        ({"access_key": "", "secret_key": ""}, "at least 1 character"),
        ({"session_token": "t"}, "belongs to"),
        (KEYS | {"profile": "lake"}, "which of them"),
        ({"kms_key": "k"}, "aws:kms"),
        ({"kms_key": "k", "encryption": "AES256"}, "aws:kms"),
        ({"storage_class": "DEEP_ARCHIVE"}, "cannot be read at once"),
        ({"checksums": "never"}, "'when_required' or 'always'"),
        ({"addressing": "dns"}, "'path', 'virtual' or 'auto'"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        StoreSettings.model_validate(PLACE | given)


def test_an_error_about_credentials_shows_none(tmp_path: Path) -> None:
    line = "store: {endpoint: e, bucket: b, profile: p, access_key: a, secret_key: very-secret}\n"
    (tmp_path / "platform.yaml").write_text(line, encoding="utf-8")
    with pytest.raises(SettingsError, match="which of them") as refused:
        Deployment.load(tmp_path, {}).one("store", StoreSettings)
    assert "very-secret" not in str(refused.value)
