"""Says on stderr what went wrong: a line for people, one JSON object where the command was asked for JSON."""

from __future__ import annotations

import sys
from typing import Any

import click
import orjson

from include.errors import LyrebirdError, Transient

__all__ = ["tell_error"]


def tell_error(error: LyrebirdError | click.ClickException | str) -> None:
    """Print it; stdout is for answers alone.

    As JSON: `{"error": {"kind", "message", "details", "fix", "passing"}}`; `passing`: the same may succeed later.
    """
    if not _wants_json():
        if isinstance(error, click.ClickException):
            error.show()
        else:
            click.echo(f"error: {error}" if isinstance(error, LyrebirdError) else error, err=True)
        return
    told: dict[str, Any] = {"kind": type(error).__name__, "message": str(error), "details": {}, "fix": ""}
    if isinstance(error, LyrebirdError):
        told |= {"message": error.message, "details": dict(error.details), "fix": error.fix}
    elif isinstance(error, click.ClickException):
        told["message"] = error.format_message()
    else:
        told["kind"] = "Stopped"
    told["passing"] = isinstance(error, Transient)
    click.echo(orjson.dumps({"error": told}, default=str, option=orjson.OPT_NON_STR_KEYS).decode(), err=True)


def _wants_json() -> bool:
    context = click.get_current_context(silent=True)
    if context is not None and "as_json" in context.params:
        return bool(context.params["as_json"])
    # A command that was called wrongly has no context any more.
    return "--json" in sys.argv[1:]
