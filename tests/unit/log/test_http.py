from __future__ import annotations

import pytest

from include.errors import SettingsError
from include.log.http import Http


@pytest.mark.parametrize(
    "url", ["", "registry:8081", "ftp://registry/x", "http://", "http://registry:port", "http:///x"]
)
def test_what_is_not_an_address_is_refused_before_it_is_used(url: str) -> None:
    with pytest.raises(SettingsError, match="not an address"):
        Http(url, {}, 1.0)
