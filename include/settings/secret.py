"""Keeps secrets from being shown: settings that are named as such, and logins inside of addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import unquote, urlsplit

from pydantic import PlainSerializer, SecretStr, SerializationInfo

__all__ = ["REVEALED", "Secret", "is_secret", "login_apart", "revealed", "without_login"]

REVEALED: Final = {"secrets": "revealed"}
"""The `context` of a `model_dump` to JSON that is read back by a task: secrets are written as they are."""


def _written(secret: SecretStr, info: SerializationInfo) -> str:
    if info.context != REVEALED:
        raise TypeError("who writes a secret as JSON says so, by the context REVEALED")
    return secret.get_secret_value()


Secret = Annotated[SecretStr, PlainSerializer(_written, when_used="json-unless-none")]
"""A setting that shows itself to whoever opens a connection alone (`revealed`)."""

_NAME: Final = re.compile(
    r"(password|passwd|passphrase|secret|token|credentials?|salt|pem|jaas|jaas\.config|(^|[._-]|api|access)key)$",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"(?<=//)[^/?#\s]*@")
# A password may hold a comma, too.
_BETWEEN: Final = re.compile(r",(?=\w+://)")


def revealed(secret: SecretStr | None) -> str | None:
    """The secret itself, where there is one."""
    return None if secret is None else secret.get_secret_value()


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret; `client_key` does not, which is a path."""
    return bool(_NAME.search(name)) and name not in _PATHS


def without_login(text: str) -> str:
    """Addresses without the user and password that stand before their host."""
    return _LOGIN.sub("", text)


def login_apart(values: Any, *others: str) -> Any:
    """A section's values with the login of its `url` in `user` and `password`, so that the address can be shown.

    Where the section has a user, or one of `others`, that one counts; an empty user is none. Raises `ValueError` for
    addresses that differ, for a user with an empty password, and where it is not clear what is the login.
    """
    if isinstance(values, Mapping) and values.get("user") == "":
        # As names leave it that are not set: servers of one's own may ask nobody.
        values = {name: value for name, value in values.items() if (name, value) not in _NOBODY}
    if isinstance(values, Mapping) and values.get("user") and values.get("password") == "":
        raise ValueError("a user needs a password")
    if not isinstance(values, Mapping) or not isinstance(values.get("url"), str):
        return values
    if "@" not in values["url"]:
        return values
    try:
        parts = [urlsplit(each) for each in _BETWEEN.split(values["url"])]
    except ValueError:
        # Its text has the login.
        raise ValueError("not an address: http://host:port or https://…") from None
    if any("@" in found.path + found.query + found.fragment for found in parts):
        raise ValueError(
            "an @ behind the host: write / ? # @ of a password as %2F %3F %23 %40, or name it by `password`"
        )
    logins = {(found.username, found.password) for found in parts}
    if len(logins) > 1:
        raise ValueError("the addresses name different users: name one by user and password")
    user, password = next(iter(logins))
    bare = [found._replace(netloc=found.netloc.rpartition("@")[2]).geturl() for found in parts]
    apart = {**values, "url": ",".join(bare)}
    if user and not any(values.get(name) is not None for name in ("user", *others)):
        apart |= {"user": unquote(user), "password": unquote(password) if password else None}
    return apart


_NOBODY: Final = (("user", ""), ("password", ""))
_PATHS: Final = {"client_key", "kms_key"}
