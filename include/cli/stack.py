"""`lyrebird up`, `down`, `status`, `logs`: the servers of this machine."""

from __future__ import annotations

import json
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from include.cli.colours import painted
from include.cli.json_option import json_option
from include.cli.table import duration, table
from include.clock import Clock, SystemClock, iso
from include.errors import SettingsError
from include.incidents.supervision import how_ended
from include.local.services import SERVICES
from include.settings.environment import state_folder

if TYPE_CHECKING:
    from include.local.status import ApplicationStatus, StackStatus

__all__ = ["down", "logs", "status", "up"]

_PAGES = {
    "airflow": "LYREBIRD_AIRFLOW",
    "mail": "LYREBIRD_MAIL",
    "elasticsearch": "LYREBIRD_ELASTICSEARCH",
    "registry": "LYREBIRD_REGISTRY",
    "s3": "LYREBIRD_S3",
    "kafka": "LYREBIRD_KAFKA",
}


def _names(_context: click.Context, _option: click.Parameter, value: str | None) -> list[str]:
    return [name.strip() for name in (value or "").split(",") if name.strip()]


@click.command()
@click.option("--only", callback=_names, metavar="A,B", help="Start these services alone.")
@click.option("--without", callback=_names, metavar="A,B", help="Start all but these.")
@click.option("--fetch", is_flag=True, help="Only download and build what is not there yet; start nothing.")
@json_option()
def up(only: list[str], without: list[str], fetch: bool, as_json: bool) -> None:
    """Start the servers and wait until they answer. What runs already is left as it is.

    The first time it downloads about 450 MB into LYREBIRD_CACHE and builds one program. Addresses and generated
    passwords go into .lyrebird/env. Ports: LYREBIRD_PORT_<NAME>, e.g. LYREBIRD_PORT_KAFKA=9092.

    Services: mariadb, kafka, registry, s3, elasticsearch, mail, airflow; and mariadb-ads, only where it is named.
    """
    from include.local.rootless import hand_over
    from include.local.services import select
    from include.local.stack import Stack

    clock = SystemClock()
    begin_s = clock.monotonic_s()
    say = _quiet if as_json else _say
    select(only, without)  # refuses names before anything is made
    hand_over(state_folder(), say)
    stack = Stack(state_folder(), say=say)
    if fetch:
        cache = stack.fetch(only, without=without)
        click.echo(json.dumps({"cache": str(cache)}) if as_json else f"All programs are in {cache}.")
        return
    env = stack.up(only, without=without)
    took_s = clock.monotonic_s() - begin_s
    addresses = {name: env[variable] for name, variable in _PAGES.items() if variable in env}
    if "LYREBIRD_MYSQL_PORT" in env:
        addresses["mariadb"] = f"{env['LYREBIRD_MYSQL_HOST']}:{env['LYREBIRD_MYSQL_PORT']}"
    if "LYREBIRD_ADS_PORT" in env:
        addresses["mariadb-ads"] = f"{env['LYREBIRD_ADS_HOST']}:{env['LYREBIRD_ADS_PORT']}"
    if as_json:
        click.echo(
            json.dumps({"seconds": round(took_s, 1), "env": f"{env['LYREBIRD_STATE']}/env", "addresses": addresses})
        )
        return
    click.echo(f"\nUp in {took_s:.0f} s.")
    for name, address in addresses.items():
        click.echo(f"  {name:<14} {address}")
    if "airflow" in addresses:
        user, password = env["LYREBIRD_AIRFLOW_USER"], env["LYREBIRD_AIRFLOW_PASSWORD"]
        click.echo(f"  Airflow: user {user}, password {password}")
    click.echo(f"Names and passwords: {env['LYREBIRD_STATE']}/env. Next: lyrebird status, lyrebird demo.")


@click.command()
@json_option()
def down(as_json: bool) -> None:
    """Stop servers and supervised applications that were started from this state folder, and nothing else."""
    from include.local.stack import Stack

    stopped = Stack(state_folder(), say=_quiet if as_json else _say).down()
    if as_json:
        click.echo(json.dumps({"stopped": stopped}))
    else:
        click.echo(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing was running.")


@click.command()
@json_option()
def status(as_json: bool) -> None:
    """Show servers (memory, uptime, deaths) and applications (lag, rows, restarts) that run from this state folder.

    Restarts are those of the last 24 hours, after a crash or a standstill; the last exit says how and when.

    Also mails that wait for a mail server, since when and why, and those that it refused.

    Exit code 1 when a server was given up.
    """
    from include.local.stack import Stack

    seen = Stack(state_folder()).status()
    if as_json:
        click.echo(json.dumps(seen.to_json()))
    else:
        _print_servers(seen)
        _print_applications(seen.applications)
        _print_mails(seen)
    if any(process.state == "gave up" for process in seen.processes):
        raise click.exceptions.Exit(1)


def _print_servers(seen: StackStatus) -> None:
    if all(process.state == "down" for process in seen.processes):
        click.echo(f"No server runs from {seen.state}. `lyrebird up` starts them.")
        return
    rows = []
    for process in seen.processes:
        on = process.state == "running"
        rows.append(
            (
                process.process,
                process.state,
                str(process.pid or ""),
                ", ".join(map(str, process.ports)) if on else "",
                f"{process.memory_mb:.0f} MB" if on else "",
                duration(process.uptime_s) if on else "",
                str(process.deaths) if process.deaths else "",
                process.note,
            )
        )
    head = ("server", "state", "pid", "ports", "memory", "uptime", "deaths", "")
    click.echo(painted(table(head, rows, right=("pid", "memory", "deaths"))))
    total = sum(process.memory_mb for process in seen.processes)
    who = f"pid {seen.supervisor}" if seen.supervisor else "not running (`lyrebird up` starts it)"
    click.echo(f"\nTogether {total:.0f} MB. Supervisor: {who}. State: {seen.state}")


def _print_applications(applications: tuple[ApplicationStatus, ...]) -> None:
    if not applications:
        return
    shown = (
        ("lag", "lyrebird_lag_seconds", "{:.1f} s"),
        ("waiting", "lyrebird_lag_records", "{:,.0f}"),
        ("rows", "lyrebird_rows_total", "{:,.0f}"),
        ("documents", "lyrebird_documents_total", "{:,.0f}"),
        ("set aside", "lyrebird_set_aside_total", "{:,.0f}"),
        ("retries", "lyrebird_retries_total", "{:,.0f}"),
    )
    rows = []
    for application in applications:
        numbers = [
            form.format(application.numbers[name]) if name in application.numbers else "" for _, name, form in shown
        ]
        state = "running" if application.alive else "ended"
        pid = str(application.pid) if application.alive else ""
        restarts = str(application.restarts or "")
        ended = _exit(application.last_exit)
        rows.append((application.application, state, pid, *numbers, restarts, ended, application.error))
    names = (*(name for name, _, _ in shown), "restarts")
    head = ("application", "state", "pid", *names, "last exit", "")
    click.echo("\n" + table(head, rows, right=("pid", *names)))


def _exit(end: dict[str, Any] | None) -> str:
    """How and when an application ended last: `signal 9, 2026-11-02T03:04:05Z`; restarts are of the last 24 hours."""
    if end is None:
        return ""
    return f"{how_ended(end)}, {iso(end.get('ended_us', 0))[:19]}Z"


def _print_mails(seen: StackStatus) -> None:
    mails = seen.mails
    if mails.waiting:
        age_s = max(0.0, SystemClock().now_us() / 1e6 - mails.since_us / 1e6)
        why = f": {mails.problem}" if mails.problem else ""
        click.echo(f"\nMails that wait: {mails.waiting}, the oldest for {duration(age_s)}{why}")
    if mails.refused:
        click.echo(f"\nMails that the mail server refused: {mails.refused}, in {seen.state}/outbox/refused/")


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on showing new lines until Ctrl-C.")
@click.option("-n", "--lines", default=50, show_default=True, help="How many of the last lines.")
@json_option()
def logs(name: str, follow: bool, lines: int, as_json: bool) -> None:
    """Show the log of NAME: a server as in `lyrebird status`, `supervisor`, or a supervised application."""
    files = _log_files(state_folder(), name)
    if as_json:
        for path in files:
            for line in _last(path, lines):
                click.echo(json.dumps({"log": path.stem, "line": line}))
    else:
        for path in files:
            if len(files) > 1:
                click.echo(f"==> {path} <==")
            for line in _last(path, lines):
                click.echo(line)
    if follow:
        _follow(files, as_json, SystemClock())


def _log_files(state: Path, name: str) -> list[Path]:
    known = {row.name: list(row.processes) for row in SERVICES}
    names = known.get(name, [name])
    files = [path for path in (state / "log" / f"{one}.log" for one in names) if path.exists()]
    application = state / "run" / name / "app.log"
    if application.exists():
        files.append(application)
    if files:
        return files
    there = {path.stem for path in (state / "log").glob("*.log")}
    there |= {path.parent.name for path in (state / "run").glob("*/app.log")}
    have = f"There are logs of: {', '.join(sorted(there))}." if there else "There are none yet: run `lyrebird up`."
    raise SettingsError(f"there is no log of {name!r} under {state}", fix=have)


def _last(path: Path, count: int) -> list[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        return [line.rstrip("\n") for line in deque(file, maxlen=max(count, 0))]


def _follow(paths: list[Path], as_json: bool, clock: Clock) -> None:
    """Print what is appended; a file that was moved away is opened anew."""
    files: dict[Path, TextIO] = {}
    for path in paths:
        files[path] = path.open(encoding="utf-8", errors="replace")
        files[path].seek(0, 2)
    while True:
        for path, file in files.items():
            for line in file:
                text = line.rstrip("\n")
                click.echo(json.dumps({"log": path.stem, "line": text}) if as_json else text)
            if path.exists() and path.stat().st_ino != Path(f"/proc/self/fd/{file.fileno()}").stat().st_ino:
                file.close()
                files[path] = path.open(encoding="utf-8", errors="replace")
        clock.sleep(0.3)


def _say(line: str) -> None:
    sys.stdout.write(f"  {line}\n")
    sys.stdout.flush()


def _quiet(_line: str) -> None:
    """With --json nothing but the object is printed."""
