"""The mail catcher, our own process."""

from __future__ import annotations

import sys
from dataclasses import replace

from include.local.process import Launch
from include.local.recipes.probe import answers
from include.local.records import write_private
from include.local.services import Service
from include.local.site import Site

__all__ = ["finish", "prepare", "ready"]


def prepare(site: Site, row: Service) -> tuple[Launch, ...]:
    """Return the process; its login stands in its folder."""
    owner, folder = site.owner(row), site.give(row)
    # By rename: root follows no link that the account has put there.
    write_private(folder / "login", ":".join(_login(site)))
    site.give(row)
    argv = (
        sys.executable,
        "-m",
        "include.local.mail",
        f"--smtp=127.0.0.1:{site.ports['smtp']}",
        f"--http=127.0.0.1:{site.ports['mail']}",
        f"--folder={folder}",
        f"--login={folder / 'login'}",
    )
    # No passwords of others: it has no business with them.
    if owner.account is None:
        environment = {name: text for name, text in site.python_environment().items() if name not in site.secrets}
    else:
        # Little of root's, which may lead to what the account cannot read.
        environment = site.server_environment(row, LYREBIRD_STATE=str(site.state), PYTHONPATH=str(site.project))
    return (replace(site.launch(row, argv, environment), cwd=str(site.project), grace_s=10.0),)


def _login(site: Site) -> tuple[str, str]:
    return "lyrebird", site.secrets["LYREBIRD_MAIL_PASSWORD"]


def ready(site: Site, row: Service) -> bool:
    """The list of messages (served only when SMTP is open too), as our user."""
    return answers(f"http://127.0.0.1:{site.ports['mail']}/messages.json", login=_login(site))


def finish(site: Site, row: Service) -> None:
    """Nothing."""
