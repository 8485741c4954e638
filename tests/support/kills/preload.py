"""What each process of a run needs, loaded once by the server that forks them."""

from __future__ import annotations

import boto3

import tests.support.kills.program

__all__ = ["program"]

program = tests.support.kills.program
# Reads S3's model, which takes longer than all else in a short life.
boto3.client("s3", endpoint_url="http://127.0.0.1:9", aws_access_key_id="a", aws_secret_access_key="a", region_name="a")
