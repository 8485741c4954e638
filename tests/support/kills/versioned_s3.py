"""An S3 server of a test's own that keeps every version of an object: what was overwritten is seen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from include.clock import SystemClock
from include.local import accounts, process
from include.local.programs import resolve
from include.local.recipes import recipe
from include.local.services import service
from tests.support.servers.reaper import leashed
from tests.support.sites import opened

__all__ = ["BUCKET", "Versioned", "versioned"]

BUCKET = "lake"


@dataclass(frozen=True)
class Versioned:
    """One server with one bucket."""

    endpoint: str
    access_key: str
    secret_key: str

    def client(self) -> Any:
        """A plain client of S3, which shares nothing with the product's."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, proxies={}),
        )


@contextmanager
def versioned(folder: Path) -> Iterator[Versioned]:
    """A server that runs, for the length of a `with`."""
    row = service("s3")
    with opened(folder) as site:
        resolve.ensure([row], site.cache, SystemClock())
        (launch,) = recipe(row).prepare(site, row)
        versions = Path(launch.cwd) / "versions"
        versions.mkdir()
        accounts.give(versions.parent, site.owner(row).account)
        *before, objects = launch.argv
        running = process.start(replace(launch, argv=(*before, "--versioning-dir", str(versions), objects)))
        with leashed(running):
            try:
                until_s = time.monotonic() + 30
                while not recipe(row).ready(site, row):
                    assert running.poll() is None, process.tail(Path(launch.log))
                    assert time.monotonic() < until_s, "the S3 server did not come up"
                    time.sleep(0.05)
                keys = launch.env["ROOT_ACCESS_KEY"], launch.env["ROOT_SECRET_KEY"]
                server = Versioned(f"http://127.0.0.1:{site.ports['s3']}", *keys)
                client = server.client()
                client.create_bucket(Bucket=BUCKET)
                client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
                client.close()
                yield server
            finally:
                running.terminate()
                running.wait()
