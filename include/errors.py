"""The errors of Lyrebird, named by the reaction that they ask for.

```
LyrebirdError
├── Transient       try again with back-off: the system may answer next time
├── Terminal        stop this stage and tell a person: trying again gives the same
│   ├── SettingsError   a deployment file or an argument is wrong
│   ├── Fenced          another process has taken over; this one must end at once
│   ├── NothingToJudge  an audit came before what it judges: say so, it is neither clean nor wrong
│   └── Restart         this writer cannot go on, a new one can: open it, or end and be started again
├── InvalidRecord   set this one record aside with its bytes and reason, go on
└── BackPressure    the next system is full: slow down, send the same message again
```

A caller decides by type, never by the text. Every error keeps its parameters (`details`) and, where a person
can do something, ends with the next step (`fix`). All of them pickle, as Spark carries them between processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "BackPressure",
    "Fenced",
    "InvalidRecord",
    "LyrebirdError",
    "NothingToJudge",
    "Restart",
    "SettingsError",
    "Terminal",
    "Transient",
]


class LyrebirdError(Exception):
    """Base of all errors that Lyrebird raises on purpose.

    `str()` is one line: what happened, where (`details`), then the next step (`fix`).
    """

    def __init__(self, message: str, *, fix: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.details: Mapping[str, Any] = details

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.fix, dict(self.details)))

    def __str__(self) -> str:
        where = ", ".join(f"{name}={value!r}" for name, value in self.details.items())
        text = f"{self.message} ({where})" if where else self.message
        return " ".join(f"{text}. {self.fix}".split()) if self.fix else " ".join(text.split())


def _rebuild(kind: type[LyrebirdError], message: str, fix: str, details: dict[str, Any]) -> LyrebirdError:
    return kind(message, fix=fix, **details)


class Transient(LyrebirdError):
    """The call may succeed when it is made again; details name `system` and `attempt`."""


class Terminal(LyrebirdError):
    """Trying again cannot help: stop, alert, show `fix`."""


class SettingsError(Terminal):
    """A deployment file, an argument or an environment variable is wrong.

    Details name the `file`, the `path` of the value inside it and the `allowed` values.
    """


class Fenced(Terminal):
    """A newer process owns this work. The receiver ends without another write."""


class NothingToJudge(Terminal):
    """Nothing is there yet that an audit could judge. What was there once and is gone is another `Terminal`."""


class Restart(Terminal):
    """Only a new writer finds out where this one stood: its owner opens one, or ends and is started again."""


class InvalidRecord(LyrebirdError):
    """One record cannot be understood; details name `topic`, `partition`, `offset`, `reason`."""


class BackPressure(LyrebirdError):
    """The receiver is full; details name who (`system`). The same message is sent again later."""
