"""Takes the manual's pictures: runs the demo, draws its screen, and photographs pages of its Airflow (`make pictures`).

Needs what `make demo` needs, and Chromium. The demo is a real one, so the figures are this machine's.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import httpx
from rich.console import Console

from demo.extras import parts, services
from demo.run import Demo
from demo.screen import Figures, LiveScreen
from include.clock import SystemClock
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
        photograph(env)
    finally:
        stack.down()
        show.close()
    return 0 if summary.good else 1


def photograph(env: dict[str, str]) -> None:
    """The pages that the README and the manual show, of a stack that runs."""
    airflow = env["LYREBIRD_AIRFLOW"]
    who = {"username": env["LYREBIRD_AIRFLOW_USER"], "password": env["LYREBIRD_AIRFLOW_PASSWORD"]}
    token = httpx.post(f"{airflow}/auth/token", json=who, timeout=20).raise_for_status().json()["access_token"]
    with Browser() as browser:
        browser.sign_in(airflow, "_token", token)
        for name, path in (
            ("dags", "/dags"),
            ("stream", "/dags/stream_lake_tables"),
            ("audits", "/lyrebird/audits"),
        ):
            browser.picture(airflow + path, FOLDER / f"{name}.png")
        newest = httpx.get(
            f"{airflow}/api/v2/dags/audit_tables/dagRuns",
            headers={"Authorization": f"Bearer {token}"},
            timeout=20,
        ).raise_for_status()
        run_id = newest.json()["dag_runs"][0]["dag_run_id"]
        browser.picture(f"{airflow}/lyrebird/audits/table/{run_id}", FOLDER / "audit_tables.png")


if __name__ == "__main__":
    sys.exit(main())
