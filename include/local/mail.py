"""A mail catcher: takes every mail on loopback, sends none on, shows them as a page and as JSON.

`GET /` is a page for people. `GET /messages.json` is a list of {received, from, to, subject, text, html}, oldest
first. Each message is a file in the folder, so they survive a restart; delete the files to empty it. The newest 1,000
are kept. With a login, SMTP and both pages ask for it.
"""

from __future__ import annotations

import argparse
import contextlib
import email
import email.policy
import functools
import hmac
import html
import html.parser
import http.server
import json
import logging
import re
import secrets
import signal
import sys
import threading
import warnings
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from include.clock import Clock, SystemClock, iso
from include.log.http import basic

__all__ = ["MOST_MAILS", "Mailbox", "main", "readable", "serve"]

MOST_MAILS = 1000
"""So many are kept, the newest."""

# In text that is escaped: a quote ends it.
_URL = re.compile(r"https?://(?:(?!&quot;|&lt;|&gt;|&#x27;)[^\s<>\"'])+")


class Mailbox:
    """Messages in a folder, one `.eml` file each; the name holds the time of receipt."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._parsed: dict[str, dict[str, Any]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, sender: str, receivers: list[str], content: bytes) -> None:
        """Keep one message; it is listed from the moment this returns."""
        name = f"{self._clock.now_us():016d}-{secrets.token_hex(3)}"
        temporary = self._folder / f".{name}"
        envelope = json.dumps({"from": sender, "to": receivers}).encode()
        temporary.write_bytes(envelope + b"\n" + content)
        temporary.rename(self._folder / f"{name}.eml")
        for path in sorted(self._folder.glob("*.eml"))[:-MOST_MAILS]:
            path.unlink(missing_ok=True)

    def messages(self) -> list[dict[str, Any]]:
        """All messages, oldest first. Each is parsed once: pages and readiness ask again and again."""
        parsed: dict[str, dict[str, Any]] = {}
        for path in sorted(self._folder.glob("*.eml")):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                parsed[path.name] = self._parsed.get(path.name) or _read(path)
        self._parsed = parsed
        return list(parsed.values())

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        """Called by aiosmtpd for each mail."""
        content = envelope.content or b""
        self.keep(
            envelope.mail_from or "",
            [str(receiver) for receiver in envelope.rcpt_tos],
            content if isinstance(content, bytes) else content.encode(),
        )
        return "250 kept"


def _read(path: Path) -> dict[str, Any]:
    head, _, content = path.read_bytes().partition(b"\n")
    envelope = json.loads(head)
    message = email.message_from_bytes(content, policy=email.policy.default)
    return {
        "received": iso(int(path.name.split("-")[0])),
        "from": envelope["from"],
        "to": envelope["to"],
        "subject": str(message["subject"] or ""),
        "text": _part(message, "plain"),
        "html": _part(message, "html"),
    }


def _part(message: EmailMessage, kind: str) -> str:
    part = message.get_body(preferencelist=(kind,))
    return str(part.get_content()) if part is not None else ""


class _Words(html.parser.HTMLParser):
    """Collects what a page says; blocks begin lines of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("p", "pre", "br", "div", "tr", "li"):
            self.words.append("\n")
        if tag == "p":
            self.words.append("\n")

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip("\n"))


def readable(content: str) -> str:
    """The words of an HTML mail, line by line."""
    words = _Words()
    words.feed(content)
    words.close()
    return "".join(words.words).strip()


def page(messages: list[dict[str, Any]]) -> str:
    """The mails as one HTML page, newest first. Everything of a mail is escaped."""
    rows = []
    for message in reversed(messages):
        text = _URL.sub(r'<a href="\g<0>">\g<0></a>', html.escape(message["text"] or readable(message["html"])))
        rows.append(
            f"<details><summary><time>{message['received']}</time> "
            f"<b>{html.escape(message['subject'])}</b> to {html.escape(', '.join(message['to']))}"
            f"</summary><pre>{text}</pre></details>"
        )
    body = "\n".join(rows) or "<p>No mail yet.</p>"
    return (
        "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=10><title>Mail</title>"
        "<style>body{font:15px sans-serif;max-width:60em;margin:2em auto}pre{white-space:pre-wrap}"
        f"</style><h1>Mail caught: {len(messages)}</h1>{body}"
    )


class _Page(http.server.BaseHTTPRequestHandler):
    def __init__(self, mailbox: Mailbox, login: tuple[str, str] | None, *arguments: Any) -> None:
        self._mailbox, self._login = mailbox, login
        super().__init__(*arguments)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        said = self.headers.get("Authorization", "").encode(errors="replace")
        if self._login and not hmac.compare_digest(said, basic(*self._login).encode()):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="mails"')
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif path == "/messages.json":
            self._answer("application/json", json.dumps(self._mailbox.messages()))
        elif path == "/":
            self._answer("text/html; charset=utf-8", page(self._mailbox.messages()))
        else:
            self.send_error(404)

    def _answer(self, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: readiness is asked every few moments."""


def serve(
    mailbox: Mailbox, smtp: tuple[str, int], http_address: tuple[str, int], login: tuple[str, str] | None = None
) -> Any:
    """Start both servers in threads of their own; call the result to stop them. `login`: user and password."""

    def lets_in(_server: SMTP, _session: Session, _envelope: Envelope, _way: str, said: Any) -> AuthResult:
        given = said.login + b":" + said.password if isinstance(said, LoginPassword) else b""
        return AuthResult(success=hmac.compare_digest(given, ":".join(login or ()).encode()), handled=False)

    controller = Controller(
        mailbox,
        hostname=smtp[0],
        port=smtp[1],
        server_hostname="lyrebird",
        authenticator=lets_in if login else None,
        auth_required=login is not None,
        # Without a login AUTH is not offered, as there is no TLS: nobody could be let in by it.
        auth_require_tls=login is None,
    )
    controller.start()
    web = http.server.ThreadingHTTPServer(http_address, functools.partial(_Page, mailbox, login))
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()

    def stop() -> None:
        web.shutdown()
        web.server_close()
        thread.join()
        controller.stop()

    return stop


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smtp", type=_address, required=True)
    parser.add_argument("--http", type=_address, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--login", type=Path, help="a file: user, colon, password")
    options = parser.parse_args(arguments)
    login = None
    if options.login:
        user, _, password = options.login.read_text().strip().partition(":")
        login = user, password
    # At each connection it warns of passwords without TLS, which loopback can do without.
    warnings.filterwarnings("ignore", message="Requiring AUTH", module="aiosmtpd")
    logging.getLogger("mail.log").setLevel(logging.ERROR)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    stop = serve(Mailbox(options.folder, SystemClock()), options.smtp, options.http, login)
    ended.wait()
    stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
