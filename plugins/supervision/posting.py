"""Hands mails to the outbox, and sees to it that somebody sends them.

To tell something takes a file and no server: neither a task nor a trigger waits for a mail. The sender
(`include.outbox.sender`) gets its settings from Airflow's connection `smtp_default`, by whoever finds that it is
missing: who has just put a mail there, every trigger each half minute, the keeper.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from typing import Any, Final

from airflow.providers.smtp.hooks.smtp import SmtpHook

from include.clock import SystemClock
from include.outbox import sender
from include.outbox.folder import Mail, Outbox, outbox
from include.outbox.sender import MailSettings
from include.settings.environment import state_folder

__all__ = ["ensure_sender", "ensure_sender_async", "post", "settings_of"]

_LOGGER: Final = logging.getLogger(__name__)
_CONNECTION: Final = "smtp_default"
_LOG_BYTES: Final = 1024 * 1024
_PASSED_ON: Final = ("LANG", "LC_ALL", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TZ")
_started: list[subprocess.Popen[bytes]] = []
"""Senders outlive us on purpose; those that ended while we live are reaped when the next is started."""


def post(mail: Mail) -> None:
    """Put a mail into the outbox; it goes out from there once, whatever becomes of this process.

    Raises:
        OSError: the disk does not take it.
    """
    outbox(state_folder()).put(mail, SystemClock().now_us())


def ensure_sender() -> None:
    """Start a sender where mails wait and none lives. Never raises: whoever looks next does it."""
    if (box := _unattended()) is not None:
        try:
            _start(box, settings_of(SmtpHook.get_connection(_CONNECTION)))
        except Exception:  # whatever Airflow's many backends raise: the mails wait, and supervision goes on
            _LOGGER.exception("no sender could be started: mails wait in %s", box.path)


async def ensure_sender_async() -> None:
    """The same, in the triggerer."""
    if (box := _unattended()) is not None:
        try:
            _start(box, settings_of(await SmtpHook.aget_connection(_CONNECTION)))
        except Exception:  # as above
            _LOGGER.exception("no sender could be started: mails wait in %s", box.path)


def settings_of(connection: Any) -> MailSettings:
    """What Airflow's SMTP hook would make of a connection; each step takes 5 s, unless it names a `timeout`."""
    extra = connection.extra_dejson
    token = ""
    if extra.get("auth_type") == "oauth2":
        hook = SmtpHook(_CONNECTION, auth_type="oauth2")
        hook.smtp_connection = connection
        token = hook._get_oauth2_token()  # noqa: SLF001 - the hook has no other name for it
    return MailSettings(
        host=connection.host or "localhost",
        port=int(connection.port or 0),
        ssl=not extra.get("disable_ssl", False),
        starttls=not extra.get("disable_tls", False),
        verify=extra.get("ssl_context") != "none",
        user=connection.login or (extra.get("from_email") or "" if token else ""),
        password=connection.password or "",
        token=token,
        timeout_s=float(extra.get("timeout") or 5.0),
    )


def _unattended() -> Outbox | None:
    """The outbox, when mails wait in it and nobody sends them."""
    box = outbox(state_folder())
    return box if box.state().waiting and not box.has_sender() else None


def _start(box: Outbox, settings: MailSettings) -> None:
    _started[:] = [each for each in _started if each.poll() is None]
    log_path = box.path / "sender.log"
    large = log_path.exists() and log_path.stat().st_size > _LOG_BYTES
    with log_path.open("wb" if large else "ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own words
            # -I -S: nothing of the environment or of site-packages can break it.
            [sys.executable, "-I", "-S", sender.__file__, str(box.path)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            start_new_session=True,
        )
    _started.append(process)
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(settings.to_json().encode())
