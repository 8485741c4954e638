"""Hadoop reads our SequenceFiles and we read Hadoop's; a sample of `tests/prove/test_lake_sequence_files.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.lake.formats.sequence.sequence_file import SequenceFile
from tests.support.lake.hadoop_sequence_files import Hadoop, contents, messages, ours, same_as_hadoops

# Null values stand for empty ones where the layout has no place for them.
EQUAL = [
    SequenceFile(layout="offset", null_value="empty"),
    SequenceFile(layout="message_pack", null_value="empty", timestamp=True, compression="RECORD"),
    SequenceFile(layout="verbatim", compression="BLOCK", block_bytes=20_000),
    SequenceFile(layout="message_pack", null_value="empty", compression="BLOCK", codec="gzip", block_bytes=20_000),
]
LZ4 = SequenceFile(layout="verbatim", compression="BLOCK", codec="lz4")


def _name(format_: SequenceFile) -> str:
    return f"{format_.layout}-{format_.compression}-{format_.codec}"


@pytest.mark.parametrize("format_", EQUAL, ids=_name)
def test_our_bytes_are_hadoops_for_its_marker(spark: SparkSession, tmp_path: Path, format_: SequenceFile) -> None:
    assert same_as_hadoops(Hadoop(spark), tmp_path / "file", format_, messages(400, 900))


@pytest.mark.parametrize("codec", ["snappy", "lz4"])
def test_we_read_what_hadoop_compresses(spark: SparkSession, tmp_path: Path, codec: Any) -> None:
    format_ = SequenceFile(layout="verbatim", compression="BLOCK", codec=codec)
    assert same_as_hadoops(Hadoop(spark), tmp_path / "file", format_, messages(300, 6_000)) in (True, False)


@pytest.mark.parametrize("splits", [1, 7])
@pytest.mark.parametrize("format_", [*EQUAL, LZ4], ids=_name)
def test_hadoop_reads_ours_in_splits_with_markers_inside_payloads(
    spark: SparkSession, tmp_path: Path, format_: SequenceFile, splits: int
) -> None:
    batch, path = messages(1_500, 1_500, hostile=True), tmp_path / "file"
    path.write_bytes(ours(format_, batch))
    found, in_splits = Hadoop(spark).read(path, splits, format_._layout.key_class)
    assert found == contents(format_, batch)
    assert in_splits >= min(splits, path.stat().st_size // 110_000)
