"""The mail catcher, our own process."""

from __future__ import annotations

import sys
from dataclasses import replace

from include.local import accounts
from include.local.process import Launch
from include.local.recipes.probe import answers
from include.local.services import Service
from include.local.site import Site

__all__ = ["finish", "prepare", "ready"]


def prepare(site: Site, row: Service) -> tuple[Launch, ...]:
    """Return the process; it makes its folder itself, where root need not give it one."""
    owner = site.owner(row)
    if owner.account is not None:
        accounts.give(owner.folder, owner.account)
    argv = (
        sys.executable,
        "-m",
        "include.local.mail",
        f"--smtp=127.0.0.1:{site.ports['smtp']}",
        f"--http=127.0.0.1:{site.ports['mail']}",
        f"--folder={owner.folder}",
    )
    # No passwords: the account that it may run under has no other business with them.
    environment = site.server_environment(LYREBIRD_STATE=str(site.state), PYTHONPATH=str(site.project))
    return (replace(site.launch(row, argv, environment), cwd=str(site.project), grace_s=10.0),)


def ready(site: Site, row: Service) -> bool:
    """The list of messages (served only when SMTP is open too)."""
    return answers(f"http://127.0.0.1:{site.ports['mail']}/messages.json")


def finish(site: Site, row: Service) -> None:
    """Nothing."""
