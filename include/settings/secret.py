"""What must not be shown: the names of settings that hold secrets, and logins inside of addresses."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_secret", "without_login"]

_NAME: Final = re.compile(
    r"(password|passwd|passphrase|secret|token|credentials?|salt|pem|jaas|jaas\.config|(^|[._-]|api|access)key)$",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"(?<=//)[^/?#\s]*@")


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret; `client_key` does not, which is a path."""
    return bool(_NAME.search(name)) and name not in _PATHS


def without_login(text: str) -> str:
    """Addresses without the user and password that stand before their host."""
    return _LOGIN.sub("", text)


_PATHS: Final = {"client_key", "kms_key"}
