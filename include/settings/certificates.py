"""Files of certificates and keys that a section names: looked for before a client fails on them in its own words."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from include.errors import Terminal

__all__ = ["require_files", "tls_context"]


def require_files(section: str, **files: str | None) -> None:
    """Raises `Terminal` for a file that is not on this host. `files`: by the setting's name; None: not set."""
    for name, path in files.items():
        if path is not None and not Path(path).is_file():
            raise Terminal(
                "no such file of certificates",
                system=section,
                **{name: path},
                host=socket.gethostname(),
                fix=f"`{name}` of `{section}` has to lie at the same path on every host that runs tasks.",
            )


def tls_context(
    section: str, ca_file: str | None, client_cert: str | None, client_key: str | None
) -> ssl.SSLContext | None:
    """What a connection over TLS is set up by; None where nothing is named, so that the system's own holds.

    Raises `Terminal` for files that are missing or hold something else.
    """
    if ca_file is None and client_cert is None:
        return None
    require_files(section, ca_file=ca_file, client_cert=client_cert, client_key=client_key)
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if client_cert is not None:
            context.load_cert_chain(client_cert, client_key)
    except (ssl.SSLError, OSError) as error:
        raise Terminal(
            "the certificates cannot be read",
            system=section,
            ca_file=ca_file,
            client_cert=client_cert,
            reason=str(error),
            fix="They are PEM: certificate and key, without a passphrase, readable by whoever runs this.",
        ) from error
    return context
