"""The authority of a store's certificate, for delta-rs: it takes none by an option.

It trusts what `$SSL_CERT_FILE` names at the moment when it makes a client. So that stands there just then, in a file
that has the machine's own authorities, too: other threads may look at the same moment.
"""

from __future__ import annotations

import atexit
import functools
import os
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from include.errors import SettingsError

__all__ = ["trusting"]

_VARIABLE: Final = "SSL_CERT_FILE"
_ONE: Final = threading.RLock()


@contextmanager
def trusting(ca_file: str) -> Iterator[None]:
    """Clients that are made in here trust this authority, beside those that this machine does; '' for these alone.

    Raises `SettingsError` where the file cannot be read.
    """
    if not ca_file:
        yield
        return
    with _ONE:
        before = os.environ.get(_VARIABLE)
        os.environ[_VARIABLE] = _bundle(ca_file, before or "")
        try:
            yield
        finally:
            if before is None:
                del os.environ[_VARIABLE]
            else:
                os.environ[_VARIABLE] = before


@functools.cache
def _bundle(ca_file: str, before: str) -> str:
    """A file of this process with the machine's authorities and this one."""
    usual = before or ssl.get_default_verify_paths().cafile or ""
    try:
        own = Path(ca_file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            "the authority of the store's certificate cannot be read",
            path="store.ca_file",
            file=ca_file,
            cause=str(error),
            fix="Correct it.",
        ) from error
    known = Path(usual).read_text("utf-8", errors="replace") if usual and Path(usual).is_file() else ""
    number, name = tempfile.mkstemp(suffix=".pem", prefix="lyrebird-trusted-")
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(f"{known}\n{own}\n")
    atexit.register(Path(name).unlink, missing_ok=True)
    return name
