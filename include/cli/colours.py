"""Colours of verdicts and states, which click takes away where no terminal is."""

from __future__ import annotations

import re
from typing import Final

import click

__all__ = ["painted"]

_COLOURS: Final[dict[str, tuple[str, ...]]] = {
    "green": ("clean", "running", "up to date", "ok"),
    "yellow": ("incomplete", "late", "not begun", "hanging", "starting", "not known", "set aside", "uncovered", "down"),
    "red": (
        *("missing", "extra", "altered", "stale", "damaged", "truncated", "lost", "failing", "failed", "findings"),
        *("gave up", "ended", "no rule"),
    ),
}
_COLOUR: Final = {word: colour for colour, words in _COLOURS.items() for word in words}
# What there is none of is not painted, nor a part of a name such as `late.orders`.
_WORD: Final = re.compile(
    r"(?<![\w.\-/`])(?<!\b0 )(?<!\bno )({})(?![\w\-/`]|\.\w)".format("|".join(sorted(_COLOUR, key=len, reverse=True)))
)


def painted(text: str) -> str:
    """The text with its verdicts and states in colour: green is well, yellow wants a look, red a hand."""
    return _WORD.sub(lambda found: click.style(found[0], fg=_COLOUR[found[0]]), text)
