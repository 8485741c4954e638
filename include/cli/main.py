"""The command `lyrebird`: a table of commands, each imported when it is called, so that `--help` answers at once."""

from __future__ import annotations

import errno
import os
import sys

import click

from include import VERSION
from include.cli.failing import tell_error
from include.cli.lazy import Lazy, LazyCommand
from include.errors import LyrebirdError, Terminal, Transient
from include.settings.environment import state_folder

__all__ = ["COMMANDS", "EXIT_TRANSIENT", "lyrebird", "main"]

EXIT_TRANSIENT = 75
"""Exit code when the same command may succeed later (EX_TEMPFAIL)."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
# They read and write what the caller names, such as a server's binlog files, and nothing of the stack's.
_CALLERS = ("binlog", "check", "join", "eventtime")
# These do so themselves, as a stack may be new.
_STARTS = ("up", "demo")

COMMANDS: dict[str, LazyCommand] = {
    "up": LazyCommand("stack", "Start the servers of this machine: MariaDB, Kafka, … , Airflow.", "up"),
    "down": LazyCommand("stack", "Stop everything that `up` started; data stays.", "down"),
    "status": LazyCommand("stack", "What runs, with memory, restarts and how far behind it is.", "status"),
    "logs": LazyCommand("stack", "Show the log of a server or an application.", "logs"),
    "doctor": LazyCommand("doctor", "Say what this machine lacks, and what to do about it."),
    "demo": LazyCommand("command", "Orders from MariaDB to search under Airflow, on one live screen.", package="demo"),
    "check": LazyCommand("check", "Check the deployment files without starting anything."),
    "shop": LazyCommand(
        "command", "A shop that writes orders, and the truth that search must answer.", package="demo.shop"
    ),
    "capture": LazyCommand("capture.commands", "Copy a MySQL source into Kafka: run, snapshot, position."),
    "binlog": LazyCommand("binlog", "Read binlog files: row changes as JSON."),
    "lake": LazyCommand("lake.commands", "What stands on object storage: found, shown and proven."),
    "table": LazyCommand("tables.commands", "Current-state tables on the lake: how far, which files."),
    "documents": LazyCommand("documents.commands", "The assembler of documents: rebuild, inspect."),
    "join": LazyCommand("join.commands", "Keyed changelogs joined without windows."),
    "eventtime": LazyCommand("eventtime.commands", "Keyed processing in the order of event time: replay a job."),
    "state": LazyCommand("state.commands", "The keyed state of joins: look into it, take it out, put it back."),
    "index": LazyCommand("index.commands", "The search index: create, offsets, documents set aside."),
    "search": LazyCommand("search.commands", "Ask the index: one order, or orders by their fields."),
    "audit": LazyCommand("audit.commands", "Prove that a copy is right, or name what is not."),
}


@click.version_option(VERSION, message="%(prog)s %(version)s")
@click.group(cls=Lazy, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
def lyrebird() -> None:
    """Copy MySQL into Kafka, documents and search, in real time, and prove that each copy is right.

    `lyrebird up` starts the servers, `lyrebird demo` shows the whole way, `lyrebird COMMAND --help` says more.
    Every command takes --json. State lies under .lyrebird/ (LYREBIRD_STATE).
    """


def main() -> int:
    """Run a command; a LyrebirdError is told on stderr, with exit code 1 or `EXIT_TRANSIENT`.

    Root's acts as whom the stack belongs to, where that is another.
    """
    try:
        if os.geteuid() == 0 and _is_the_stacks(sys.argv[1:]):
            from include.local.rootless import act_as_owner

            act_as_owner(state_folder())
        lyrebird.main(prog_name="lyrebird", standalone_mode=False)
    except LyrebirdError as error:
        return _told(error)
    except click.exceptions.Abort:
        tell_error("stopped")
        return 130
    except click.ClickException as error:
        tell_error(error)
        return error.exit_code
    except click.exceptions.Exit as end:
        return end.exit_code
    except BrokenPipeError:
        # The reader (`| head`) has seen enough. Without this, the interpreter complains at its end.
        sys.stderr.close()
        return 0
    except OSError as error:
        found = _of_a_file(error)
        if found is None:
            raise
        return _told(found)
    return 0


def _told(error: LyrebirdError) -> int:
    tell_error(error)
    return EXIT_TRANSIENT if isinstance(error, Transient) else 1


def _of_a_file(error: OSError) -> LyrebirdError | None:
    """What a person can mend."""
    if error.errno in _NO_ROOM:
        return Transient("a disk is full", file=error.filename, reason=error.strerror, fix="Make room, then again.")
    if isinstance(error, PermissionError) and error.filename is not None:
        closed = f"{error.filename} is closed to uid {os.geteuid()}, as which this runs"
        return Terminal(closed, fix="Open it to that user, or name another place.")
    return None


def _is_the_stacks(words: list[str]) -> bool:
    command = next((word for word in words if not word.startswith("-")), None)
    return command not in {None, *_CALLERS, *_STARTS} and not {"-h", "--help"} & set(words)
