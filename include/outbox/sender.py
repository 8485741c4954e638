"""Sends what waits in the outbox: `python -I -S sender.py FOLDER < settings`, one process for a folder.

Whoever puts a mail there starts it, unless one lives. It ends by itself when nothing has waited for ten seconds. While
the server is away it tries again, after a second, two, four, up to a minute. It also ends when nothing went out for
five minutes, or when the server wants another login: whoever looks next starts one with the settings of that moment.
Each step of talking to the server takes `timeout_s` at most. Settings come by standard input, as JSON: a password then
stands in no file, no list of processes and no environment. Standard library alone, as the guardian.
"""

from __future__ import annotations

import contextlib
import json
import smtplib
import ssl
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

if __name__ == "__main__":
    # Run by path and isolated from the environment: only this tells where the package is.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from include.clock import Clock, SystemClock
from include.outbox.folder import Outbox
from include.pace import Backoff

__all__ = ["MailServer", "MailSettings", "connect", "main", "send_all"]

_IDLE_S: Final = 10.0
_FRUITLESS_S: Final = 300.0
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0
_LOOK_S: Final = 0.5


@dataclass(frozen=True)
class MailSettings:
    """How to reach the mail server; the names are those of Airflow's SMTP connections.

    Attributes:
        host, port: where it is; port 0: the protocol's own.
        ssl: TLS from the first byte.
        starttls: TLS by STARTTLS.
        verify: whether its certificate must be good.
        user, password: for a login, "" for none.
        token: of OAuth 2, in place of the password.
        timeout_s: for each step.
    """

    host: str
    port: int = 0
    ssl: bool = True
    starttls: bool = True
    verify: bool = True
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    timeout_s: float = 5.0

    def to_json(self) -> str:
        """For the sender's standard input; it has the password."""
        return json.dumps(asdict(self))


class MailServer(Protocol):
    """What is used of `smtplib.SMTP`, with its errors."""

    def sendmail(self, from_addr: str, to_addrs: Sequence[str], msg: bytes, /) -> Any:
        """Return when the server has it."""

    def quit(self) -> Any:
        """Say good-bye."""


class _Settings(Exception):
    """The server refuses us as we come, whatever we bring."""


def connect(settings: MailSettings) -> smtplib.SMTP:
    """A server that takes mails; raises what smtplib raises."""
    tls = ssl.create_default_context() if settings.verify else None
    if settings.ssl:
        server: smtplib.SMTP = smtplib.SMTP_SSL(settings.host, settings.port, timeout=settings.timeout_s, context=tls)
    else:
        server = smtplib.SMTP(settings.host, settings.port, timeout=settings.timeout_s)
    try:
        if settings.starttls:
            server.starttls(context=tls)
            server.ehlo()
        if settings.token:
            said = f"user={settings.user}\x01auth=Bearer {settings.token}\x01\x01"
            server.auth("XOAUTH2", lambda _challenge=None: said)
        elif settings.user and settings.password:
            server.login(settings.user, settings.password)
    except BaseException:
        server.close()
        raise
    return server


def send_all(outbox: Outbox, connect: Callable[[], MailServer], clock: Clock) -> bool:
    """Send what waits, and what comes meanwhile. True when it ends as nothing waits, False as nothing goes out."""
    backoff = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S)
    failures: dict[str, int] = {}
    last_s = clock.monotonic_s()
    while True:
        # One at which the server fails lets the others go first.
        names = sorted(outbox.waiting(), key=lambda name: failures.get(name, 0))
        now_s = clock.monotonic_s()
        if not names:
            outbox.note_problem("")
            if now_s - last_s > _IDLE_S or outbox.asked_to_stop():
                return True
            clock.sleep(_LOOK_S)
            continue
        try:
            problem, some = _pass(outbox, names, connect, failures)
        except _Settings as error:
            outbox.note_problem(f"{error} (mend Airflow's connection smtp_default)")
            return False
        outbox.note_problem(problem)
        outbox.tidy()
        if some:
            last_s = clock.monotonic_s()
            backoff.reset()
        if not problem:
            continue
        if clock.monotonic_s() - last_s > _FRUITLESS_S or not _sleep(outbox, backoff.next_s(), clock):
            return False


def _pass(
    outbox: Outbox, names: Sequence[str], connect: Callable[[], MailServer], failures: dict[str, int]
) -> tuple[str, bool]:
    """Send these; why some stay ("": none does), and whether the server has answered for one of them."""
    try:
        server = connect()
    except (OSError, ValueError) as error:
        refused = isinstance(error, smtplib.SMTPAuthenticationError) and error.smtp_code >= 500
        if refused or isinstance(error, (smtplib.SMTPNotSupportedError, ssl.SSLCertVerificationError)):
            raise _Settings(_said(error)) from error
        return _said(error), False
    problem, some = "", False
    try:
        for name in names:
            if outbox.asked_to_stop():
                return "asked to stop", some
            failures[name] = failures.get(name, 0) + 1
            if answer := _hand_over(outbox, server, name):
                problem = answer
            else:
                some = True
                del failures[name]
    except OSError as error:
        return _said(error), some
    finally:
        with contextlib.suppress(OSError):
            server.quit()
    return problem, some


def _hand_over(outbox: Outbox, server: MailServer, name: str) -> str:
    """Give one to the server; why it stays, "" when it does not. Raises OSError when the server is gone."""
    try:
        letter = outbox.letter(name)
        server.sendmail(letter.sender, [letter.receiver], letter.message())
    except smtplib.SMTPServerDisconnected:
        raise
    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPResponseException) as error:
        code, answer = _answer(error)
        if 530 <= code < 540:
            raise _Settings(answer) from error
        if code < 500:
            return answer
        outbox.refuse(name, answer)
    except (smtplib.SMTPNotSupportedError, ValueError) as error:
        outbox.refuse(name, _said(error))
    else:
        outbox.sent(name)
    return ""


def _answer(error: smtplib.SMTPRecipientsRefused | smtplib.SMTPResponseException) -> tuple[int, str]:
    """What the server says of the only receiver, or of the mail."""
    text: bytes | str
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code, text = next(iter(error.recipients.values()))
    else:
        code, text = error.smtp_code, error.smtp_error
    return code, f"{code} {text.decode(errors='replace') if isinstance(text, bytes) else text}"


def _said(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return _answer(error)[1]
    return str(error) or type(error).__name__


def _sleep(outbox: Outbox, seconds: float, clock: Clock) -> bool:
    """False when it is asked to end meanwhile."""
    deadline_s = clock.monotonic_s() + seconds
    while not outbox.asked_to_stop():
        left_s = deadline_s - clock.monotonic_s()
        if left_s <= 0:
            return True
        clock.sleep(min(left_s, _LOOK_S))
    return False


def main(arguments: Sequence[str]) -> int:
    """Be the sender of the folder, if it has none. Blocks until there is nothing more to do."""
    outbox, clock = Outbox(Path(arguments[0])), SystemClock()
    settings = MailSettings(**json.load(sys.stdin))
    while True:
        try:
            with outbox.alone(clock) as alone:
                idle = alone and send_all(outbox, lambda: connect(settings), clock)
        except FileNotFoundError:
            # The folder was removed.
            return 0
        # Whoever has put one there while we were about to end saw that we lived.
        if not idle or not outbox.waiting():
            return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
