"""Takes the manual's pictures: runs the demo, draws its screen, and photographs pages of its Airflow (`make pictures`).

Needs what `make demo` needs, and Chromium. The demo is a real one, so the figures are this machine's.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import httpx
from rich.console import Console

from demo.airflow import Airflow
from demo.extras import parts, services
from demo.run import Demo
from demo.screen import Figures, LiveScreen
from demo.shop.connection import ShopServer
from include.clock import SystemClock
from include.errors import Terminal
from include.index.generations.create import make_index
from include.local.stack import Stack
from include.settings.deployment import Deployment
from include.settings.environment import state_folder
from tests.support.browser import Browser
from tests.support.paths import ROOT

FOLDER = ROOT / "docs" / "pictures"
ORDERS = 300
WIDTH = 118


class Drawn(LiveScreen):
    """The live screen; keeps a drawing of it from the middle of the orders."""

    def __init__(self, clock: SystemClock, file: Path) -> None:
        super().__init__(clock, Console(width=WIDTH, stderr=True))
        self._file = file

    def figures(self, figures: Figures) -> None:
        """Shown, and drawn while between a half and two thirds of the orders are placed."""
        super().figures(figures)
        if figures.orders / 2 <= figures.placed <= figures.orders * 2 / 3:
            paper = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True)
            paper.print(self._draw())
            self._file.write_text(paper.export_svg(title="make demo WITH=tables"), "utf-8")


def main() -> int:
    """Write all pictures; 0 if the demo itself was right."""
    FOLDER.mkdir(exist_ok=True)
    clock = SystemClock()
    joined = parts("tables")
    show = Drawn(clock, FOLDER / "demo.svg")
    stack = Stack(state_folder(), clock=clock, say=show.say)
    try:
        env = stack.up(services(joined))
        os.environ.update({name: value for name, value in env.items() if name.startswith("LYREBIRD_")})
        for index in [index for part in joined for index in part.indexes]:
            make_index(Deployment.load(), index)
        demo = Demo(stack, env, joined, show, clock, begun_s=clock.monotonic_s())
        try:
            summary = demo.run(ORDERS, 20.0, 1)
        finally:
            demo.close()
        photograph(env, clock)
    finally:
        stack.down()
        show.close()
    return 0 if summary.good else 1


def photograph(env: dict[str, str], clock: SystemClock) -> None:
    """The pages that the README and the manual show, of a stack that runs."""
    url, user, password = (env[f"LYREBIRD_AIRFLOW{rest}"] for rest in ("", "_USER", "_PASSWORD"))
    answer = httpx.post(f"{url}/auth/token", json={"username": user, "password": password}, timeout=20)
    airflow = Airflow(url, user, password, clock)
    with Browser() as browser, closing(airflow):
        browser.sign_in(url, "_token", answer.raise_for_status().json()["access_token"])
        browser.picture(f"{url}/dags/stream_lake_tables", FOLDER / "stream.png")
        spoil(env)
        found = airflow.trigger("audit_tables", {"source": "shop", "tables": ["orders"]})
        state = airflow.wait("audit_tables", found, 300)
        if state != "failed":
            raise Terminal("an audit took three wrong rows for right", run=found, state=state)
        page = f"{url}/lyrebird/audits/table/{quote(found)}"
        browser.picture(page, FOLDER / "audit_findings.png", whole=True)
        browser.picture(f"{url}/lyrebird/audits", FOLDER / "audits.png")


def spoil(env: dict[str, str]) -> None:
    """Change three rows behind the binlog's back, as a repair by hand might: no copy can hear of it."""
    server = replace(ShopServer.from_environment(values=env), user="root", password=env["LYREBIRD_MYSQL_ROOT_PASSWORD"])
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute("UPDATE orders SET total_price = total_price + 1 WHERE id IN (17, 130, 231)")
        connection.commit()


if __name__ == "__main__":
    sys.exit(main())
