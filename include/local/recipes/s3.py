"""S3 by versitygw over a folder, with the bucket `lake`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from include.errors import Terminal
from include.local.process import Launch
from include.local.recipes.probe import answers
from include.local.services import Service
from include.local.site import Site

__all__ = ["BUCKET", "finish", "prepare", "ready"]

BUCKET = "lake"


def prepare(site: Site, row: Service) -> tuple[Launch, ...]:
    """Make the folder, return the server. Where the file system keeps no attributes, they go beside the objects."""
    folder = site.give(row)
    objects = folder / "objects"
    objects.mkdir(exist_ok=True)
    store = ["posix", str(objects)]
    if not _keeps_attributes(folder):
        beside = folder / "attributes"
        beside.mkdir(exist_ok=True)
        store = ["posix", "--sidecar", str(beside), str(objects)]
    site.give(row)
    argv = (
        str(site.install(row) / "versitygw"),
        "--port",
        f"127.0.0.1:{site.ports['s3']}",
        "--health",
        "/healthz",
        "--quiet",
        # Not `--keep-alive`: a connection's next request is refused at times behind a body with a trailing checksum.
        *store,
    )
    environment = site.server_environment(
        row, ROOT_ACCESS_KEY="lyrebird", ROOT_SECRET_KEY=site.secrets["LYREBIRD_S3_SECRET_KEY"]
    )
    return (site.launch(row, argv, environment),)


def _keeps_attributes(folder: Path) -> bool:
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        try:
            os.setxattr(file.fileno(), "user.lyrebird", b"1")
        except OSError:
            return False
    return True


def ready(site: Site, row: Service) -> bool:
    """The health page."""
    return answers(f"http://127.0.0.1:{site.ports['s3']}/healthz")


def finish(site: Site, row: Service) -> None:
    """Make the bucket when it is missing."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{site.ports['s3']}",
        aws_access_key_id="lyrebird",
        aws_secret_access_key=site.secrets["LYREBIRD_S3_SECRET_KEY"],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, proxies={}, retries={"max_attempts": 3}),
    )
    try:
        if BUCKET not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=BUCKET)
    except (BotoCoreError, ClientError) as error:
        raise Terminal(f"bucket {BUCKET!r} cannot be made: {error}", fix="See its log.") from error
    finally:
        client.close()
