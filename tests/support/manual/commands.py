"""docs/cli.md: every command of `lyrebird` with its arguments and options, from click's own tree."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

import click

from include.cli.main import lyrebird
from tests.support.manual.tables import cell, table

__all__ = ["HEAD", "commands", "page"]

HEAD: Final = """\
# Commands

Every command of `lyrebird`, with its arguments and options. Made from the commands themselves
(`python -m tests.support.manual`). `lyrebird` lies in `.venv/bin/`; `lyrebird COMMAND --help` says the same.

The same words mean the same in all of them: `--dry-run` says what would be done and does nothing, `--repair` mends what
is found, `--yes` does not ask. Earlier spellings (`--plan`, `--check`, `--mend`, `lake audit`) still work.

Every command that answers takes `--json`. The answer stands on stdout, progress and errors on stderr. With `--json` an
error is JSON, too: `{"error": {"kind": …, "message": …, "details": {…}, "fix": …, "passing": false}}`.

| exit code | means |
|---|---|
| 0 | it is done, or clean |
| 1 | an error, findings, or nothing of that name |
| 2 | the command was called wrongly; an audit, a comparison: it cannot be said |
| 4 | nothing is there yet: an audit has nothing to judge, a backfill nothing to make again |
| 75 | an error that may pass: the same may succeed later |
| 130 | stopped by Ctrl-C |

Where a command has others, it says so below. Bash completes commands, options, and names of sources, groups, topics and
indexes that the deployment files declare, after `eval "$(_LYREBIRD_COMPLETE=bash_source lyrebird)"` (`zsh_source`,
`fish_source`).
"""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command and group below `lyrebird`, by its whole name, each group before what is in it."""
    yield from _below(lyrebird, "lyrebird")


def _below(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=name)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None, word
        yield f"{name} {word}", command
        if isinstance(command, click.Group):
            yield from _below(command, f"{name} {word}")


def page() -> str:
    """The page, as Markdown."""
    parts = [HEAD]
    for name, command in commands():
        group = isinstance(command, click.Group)
        if name.count(" ") == 1:
            parts.append(f"## {name}\n")
        elif not group:
            parts.append(f"### {name}\n")
        parts.append(_help(command) + "\n")
        if not group:
            parts.append(_usage(name, command))
            parts.append(_options(command))
    return "\n".join(part for part in parts if part)


def _help(command: click.Command) -> str:
    text = inspect.cleandoc(command.help or command.short_help or "").replace("\b\n", "")
    return text if text.endswith((".", ":", "`", ")")) else f"{text}."


def _usage(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    pieces = " ".join(command.collect_usage_pieces(context))
    return f"```\n{name} {pieces}\n```\n"


def _options(command: click.Command) -> str:
    rows = [_row(option) for option in command.params if isinstance(option, click.Option) and not option.hidden]
    return table("option", "default", "", rows=rows) if rows else ""


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else f" {_value(option)}"
    return f"| {names}{value} | {_default(option)} | {cell(option.help or '')} |"


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return " \\| ".join(f"`{each}`" for each in option.type.choices)
    return str(option.metavar or option.type.name.upper())


def _default(option: click.Option) -> str:
    default: Any = option.default
    if option.required:
        return "required"
    # click tells options without a default from those of None by a sentinel.
    if option.is_flag or callable(default) or default in (None, (), "") or type(default).__name__ == "Sentinel":
        return ""
    return f"`{default}`"
