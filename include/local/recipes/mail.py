"""The mail catcher, our own process."""

from __future__ import annotations

import sys

from include.local.process import Launch
from include.local.recipes.probe import answers
from include.local.services import Service
from include.local.site import Site

__all__ = ["finish", "prepare", "ready"]


def prepare(site: Site, row: Service) -> tuple[Launch, ...]:
    """Return the process; it makes its folder."""
    argv = (
        sys.executable,
        "-m",
        "include.local.mail",
        f"--smtp=127.0.0.1:{site.ports['smtp']}",
        f"--http=127.0.0.1:{site.ports['mail']}",
        f"--folder={site.folder(row)}",
    )
    return (
        Launch(
            name="mail",
            argv=argv,
            env=site.python_environment(),
            cwd=str(site.project),
            log=str(site.log("mail")),
            grace_s=10.0,
        ),
    )


def ready(site: Site, row: Service) -> bool:
    """The list of messages (served only when SMTP is open too)."""
    return answers(f"http://127.0.0.1:{site.ports['mail']}/messages.json")


def finish(site: Site, row: Service) -> None:
    """Nothing."""
