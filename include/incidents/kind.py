"""A kind of incident, as its stage declares it: data, of which docs/incidents.md is made; and one of a kind.

Declare each as a constant of the stage's module, which `tests/support/manual/incidents.py` names.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from string import Formatter
from typing import Any, Final, Literal

from typing_extensions import override

__all__ = ["MEANINGS", "Incident", "IncidentKind", "Severity", "advised"]

Severity = Literal["critical", "error", "warning"]
MEANINGS: Final[Mapping[str, str]] = {
    "critical": "the application has ended, or data is lost or soon will be",
    "error": "something is missing, or may be wrong, until a person acts; the rest goes on",
    "warning": "something waits, is late or needs care; nothing is lost",
}
"""What each severity says."""

_COMMAND: Final = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that a person must know. `id` is the same for as long as it lasts.

    `kind` is the name of one that the stage declares, `text` says what happened, `fix` is a command. `group` is the
    part of the application that it is about, "" for all of it. `severity` and `page` are its kind's, "" for one that an
    earlier release opened.
    """

    id: str
    kind: str
    group: str
    text: str
    fix: str
    severity: str = ""
    page: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values, as progress.json has them."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class IncidentKind:
    """Words in braces are names that `words` is given, as `str.format` has them.

    Attributes:
        name: as progress.json, the metric and a mail's subject have it. A stage may declare several of one name.
        stage: who opens it.
        severity: how soon a person has to look.
        page: of docs/ that says more, with its anchor.
        opens: when, as the rest of the sentence "It opens when …".
        ends: when, likewise; "" for what ends its process.
        text: what happened, as a mail says it.
        fix: what to do, with the command to run next as its first words in backticks.
    """

    name: str
    stage: str
    severity: Severity
    page: str
    opens: str
    ends: str
    text: str
    fix: str

    def words(self, **names: object) -> tuple[str, str]:
        """What happened, and the command to run next, each name of it a word of a shell. Raises KeyError for a name."""
        return self.text.format(**names), self.command(**names)

    def incident(self, id_: str, **names: object) -> Incident:
        """One of this kind, of the whole application. Raises as `words`."""
        return Incident(id_, self.name, "", *self.words(**names), self.severity, self.page)

    def command(self, **names: object) -> str:
        """The command to run next."""
        return _Quoted().format(_COMMAND.findall(self.fix)[0], **names)


def advised(advice: str) -> list[str]:
    """The commands of `lyrebird` that an error's advice names; `…` stands for what it does not know."""
    return [command for command in _COMMAND.findall(advice) if command.startswith("lyrebird ")]


class _Quoted(Formatter):
    @override
    def format_field(self, value: Any, format_spec: str) -> str:
        return shlex.quote(super().format_field(value, format_spec))
