"""The outbox: a folder in which each file is one mail to one receiver.

| path | holds |
|---|---|
| `waiting/` | what is to be sent |
| `sent/` | the newest thousand that a server has taken |
| `refused/` | the newest thousand that a server will not take, with its answer |
| `lock` | held (flock) by the one sender |
| `problem.json` | why nothing goes out at present |
| `stop` | the sender shall end |

A mail is in one of the three folders, under a name made of what it tells and to whom. Order of the durable steps:

1. `put` writes the file under a temporary name;
2. `put` renames it into `waiting/`: from here on it is told, whatever becomes of who told it;
3. the sender hands it to the server, until that says that it has it;
4. the sender renames it into `sent/`, or `refused/`.

Whoever crashes before 2 tells it again. Whoever tells it again after 2 changes nothing, for as long as its file is
there. A sender that crashes before 3 is over, or after 4, leaves the next one nothing to repeat. Between 3 and 4, and
where the connection is lost before the server's last word, nobody knows whether the server has it: SMTP has no more to
offer, and it is sent again, with the same Message-ID, by which most servers of mailboxes drop the second.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final

from include.clock import Clock
from include.file_lock import is_held

__all__ = ["Letter", "Mail", "Outbox", "OutboxState", "outbox"]

_KEPT: Final = 1000
_LOCK_WITHIN_S: Final = 1.0
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Mail:
    """What somebody is to be told.

    Attributes:
        identity: names what it tells: the same is sent to a receiver once.
        sender: its address.
        receivers: their addresses.
        subject: one line; others are joined to it.
        html: the body.
    """

    identity: str
    sender: str
    receivers: tuple[str, ...]
    subject: str
    html: str


@dataclass(frozen=True)
class Letter:
    """One mail to one receiver, as its file has it."""

    sender: str
    receiver: str
    receivers: tuple[str, ...]
    subject: str
    html: str
    message_id: str
    queued_us: int

    def message(self) -> bytes:
        """As SMTP takes it. Raises ValueError for an address that no mail can have."""
        message = EmailMessage(SMTP)
        message["Subject"] = " ".join(self.subject.split())
        message["From"] = self.sender
        message["To"] = ", ".join(self.receivers)
        message["Date"] = formatdate(self.queued_us / 1e6)
        message["Message-ID"] = self.message_id
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(self.html, subtype="html", cte="base64")
        return message.as_bytes()


@dataclass(frozen=True)
class OutboxState:
    """What is in it: files that wait, since when the oldest does (0: none does), those refused, why none goes out."""

    waiting: int = 0
    since_us: int = 0
    refused: int = 0
    problem: str = ""


def outbox(state: Path) -> Outbox:
    """The outbox of a state folder."""
    return Outbox(state / "outbox")


@dataclass(frozen=True)
class Outbox:
    """The folder; it need not be there."""

    path: Path

    def put(self, mail: Mail, now_us: int) -> int:
        """Let it be sent to each receiver who was not sent it yet; durable when this returns. To how many it will be.

        Raises:
            OSError: the disk does not take it; tell it again later.
        """
        message_id = f"<{secrets.token_hex(16)}@{mail.sender.rpartition('@')[2] or 'lyrebird'}>"
        added = 0
        for receiver in mail.receivers:
            name = _name(mail.identity, receiver)
            if any((self._folder(each) / name).exists() for each in ("waiting", "sent", "refused")):
                continue
            letter = {
                "identity": mail.identity,
                "from": mail.sender,
                "to": receiver,
                "all": list(mail.receivers),
                "subject": _sendable(mail.subject),
                "html": _sendable(mail.html),
                "message_id": message_id,
                "queued_us": now_us,
            }
            self._write(self._folder("waiting", make=True) / name, letter)
            added += 1
        return added

    def waiting(self) -> list[str]:
        """Names of the files that are to be sent, the oldest first. One that `sent` has is gone when this returns."""
        folder = self._folder("waiting")
        unsent = []
        for name in _names(folder):
            # Told again in the moment in which it went out.
            if (self._folder("sent") / name).exists():
                (folder / name).unlink(missing_ok=True)
            else:
                with contextlib.suppress(FileNotFoundError):
                    unsent.append(((folder / name).stat().st_mtime_ns, name))
        return [name for _, name in sorted(unsent)]

    def letter(self, name: str) -> Letter:
        """One that waits. Raises ValueError when its file is none."""
        try:
            value = json.loads((self._folder("waiting") / name).read_text(encoding="utf-8"))
            return Letter(
                sender=value["from"],
                receiver=value["to"],
                receivers=tuple(value["all"]),
                subject=value["subject"],
                html=value["html"],
                message_id=value["message_id"],
                queued_us=int(value["queued_us"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"{name} is no mail: {error!r}") from error

    def sent(self, name: str) -> None:
        """A server has it. May be called again."""
        try:
            self._move(name, "sent")
        except OSError:
            # The disk is full: rather forgotten than sent again.
            (self._folder("waiting") / name).unlink(missing_ok=True)

    def refuse(self, name: str, answer: str) -> None:
        """No server will take it: kept with the answer, and sent again where a person moves it back into `waiting`."""
        path = self._folder("waiting") / name
        with contextlib.suppress(OSError, ValueError):
            self._write(path, {**json.loads(path.read_text(encoding="utf-8")), "answer": answer})
        self._move(name, "refused")

    def note_problem(self, text: str) -> None:
        """Keep, for a person, why nothing goes out; "" when it does."""
        path = self.path / "problem.json"
        with contextlib.suppress(OSError):
            if text:
                self._write(path, {"text": text})
            else:
                path.unlink(missing_ok=True)

    def state(self) -> OutboxState:
        """How it stands; changes nothing."""
        since_us, waiting = 0, _names(self._folder("waiting"))
        for name in waiting:
            with contextlib.suppress(FileNotFoundError):
                at_us = (self._folder("waiting") / name).stat().st_mtime_ns // 1000
                since_us = min(since_us or at_us, at_us)
        try:
            problem = str(json.loads((self.path / "problem.json").read_text(encoding="utf-8"))["text"])
        except (OSError, ValueError, KeyError, TypeError):
            problem = ""
        return OutboxState(len(waiting), since_us, len(_names(self._folder("refused"))), problem if waiting else "")

    def has_sender(self) -> bool:
        """Whether one lives."""
        return is_held(self.path / "lock")

    @contextlib.contextmanager
    def alone(self, clock: Clock) -> Iterator[bool]:
        """Be the one sender; False where another is. A stop that was asked for before was the last one's."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            locked = _locked(descriptor, clock)
            if locked:
                (self.path / "stop").unlink(missing_ok=True)
            yield locked
        finally:
            os.close(descriptor)

    def asked_to_stop(self) -> bool:
        """Whether its sender shall end."""
        return (self.path / "stop").exists()

    def end_sender(self, clock: Clock, *, within_s: float) -> bool:
        """Let the sender end after the mail that it is at; whether one was there. What waits goes on waiting."""
        if not self.has_sender():
            return False
        deadline_s = clock.monotonic_s() + within_s
        while self.has_sender() and clock.monotonic_s() < deadline_s:
            (self.path / "stop").touch()
            clock.sleep(0.1)
        return True

    def tidy(self) -> None:
        """Let go of the oldest that were sent or refused."""
        for folder in map(self._folder, ("sent", "refused")):
            names = _names(folder)
            if len(names) > _KEPT:
                for path in sorted((folder / each for each in names), key=lambda one: one.stat().st_mtime_ns)[:-_KEPT]:
                    path.unlink(missing_ok=True)

    def _folder(self, name: str, *, make: bool = False) -> Path:
        folder = self.path / name
        if make and not folder.is_dir():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _move(self, name: str, to: str) -> None:
        source, folder = self._folder("waiting") / name, self._folder(to, make=True)
        with contextlib.suppress(FileNotFoundError):
            source.rename(folder / name)
        _sync(folder)

    def _write(self, path: Path, value: dict[str, Any]) -> None:
        """All or nothing, also over a power cut: temporary file, fsync, rename, fsync of the folder."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o600)
                json.dump(value, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(path.parent)


def _name(identity: str, receiver: str) -> str:
    digest = hashlib.sha256(f"{identity}\0{receiver}".encode()).hexdigest()
    return f"{_UNNAMEABLE.sub('-', identity)[:80].strip('.-')}-{digest[:24]}.json"


def _sendable(text: str) -> str:
    """Without the halves of characters that a log may hold, and no mail."""
    return text.encode("utf-8", "replace").decode()


def _names(folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith(".")]
    except FileNotFoundError:
        return []


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, clock: Clock) -> bool:
    deadline_s = clock.monotonic_s() + _LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic_s() > deadline_s:
                return False
            clock.sleep(0.02)
        else:
            return True
