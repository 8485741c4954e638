"""Every layout, mode and codec of SequenceFiles both ways with Hadoop, in 1 to 16 splits, markers inside payloads."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.lake.formats.sequence.sequence_file import SequenceFile
from include.log.running import batches_spark
from tests.support.lake.hadoop_sequence_files import Hadoop, contents, messages, ours, same_as_hadoops
from tests.support.paths import ROOT

LAYOUTS: list[dict[str, Any]] = [
    {"layout": "offset", "null_value": "empty"},
    {"layout": "message_pack", "null_value": "empty", "timestamp": True},
    {"layout": "verbatim"},
]
MODES: list[dict[str, Any]] = [
    {"compression": "NONE"},
    *({"compression": "RECORD", "codec": codec} for codec in ("zlib", "gzip", "bzip2", "snappy", "lz4")),
    *(
        {"compression": "BLOCK", "codec": codec, "block_bytes": block_bytes}
        for codec in ("zlib", "gzip", "bzip2", "snappy", "lz4")
        for block_bytes in (60_000, 1_000_000)
    ),
]
SPLITS = (1, 2, 7, 16)


@pytest.fixture(scope="module")
def hadoop() -> Iterator[Hadoop]:
    spark: SparkSession = batches_spark.session(
        "proof", {"spark.master": "local[2]", "spark.driver.memory": "2g", "spark.log.level": "ERROR"}
    )
    yield Hadoop(spark)
    spark.stop()


def batch_of(mode: dict[str, Any], *, hostile: bool) -> Any:
    # Hadoop's bzip2 takes megabytes anew for each value.
    few = mode == {"compression": "RECORD", "codec": "bzip2"}
    return messages(200 if few else 1_000, 30_000 if few else 6_000, hostile=hostile)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda each: each["layout"])
@pytest.mark.parametrize("mode", MODES, ids=lambda each: "-".join(map(str, each.values())))
def test_hadoop_reads_ours_in_any_splits(hadoop: Hadoop, tmp_path: Path, layout: Any, mode: Any) -> None:
    format_, batch = SequenceFile(**layout, **mode), batch_of(mode, hostile=True)
    path = tmp_path / "file"
    path.write_bytes(ours(format_, batch))
    expected = contents(format_, batch)
    for splits in SPLITS:
        found, in_splits = hadoop.read(path, splits, format_._layout.key_class)
        assert found == expected
        assert in_splits >= min(splits, path.stat().st_size // 110_000)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda each: each["layout"])
@pytest.mark.parametrize("mode", MODES, ids=lambda each: "-".join(map(str, each.values())))
def test_we_read_hadoops_and_write_the_same_bytes(hadoop: Hadoop, tmp_path: Path, layout: Any, mode: Any) -> None:
    same = same_as_hadoops(hadoop, tmp_path / "file", SequenceFile(**layout, **mode), batch_of(mode, hostile=False))
    assert same or mode["codec"] in ("bzip2", "snappy", "lz4")


ALONE = """
import pickle, sys
from pathlib import Path
from include.log.running import batches_spark
from tests.support.lake.hadoop_sequence_files import Hadoop
settings = {"spark.master": "local[2]", "spark.driver.memory": "2g", "spark.log.level": "ERROR"}
spark = batches_spark.session("alone", settings)
found = Hadoop(spark).read(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])[0]
Path(sys.argv[4]).write_bytes(pickle.dumps(found))
"""


def read_alone(path: Path, splits: int, key_class: str) -> Any:
    """What Hadoop reads in a process of its own; None when that fails.

    It may take a length from a payload, and its JVM ends when that is more than the heap.
    """
    result = path.with_suffix(f".{splits}")
    words = [sys.executable, "-c", ALONE, str(path), str(splits), key_class, str(result)]
    subprocess.run(words, cwd=ROOT, check=False, timeout=100, capture_output=True)
    return pickle.loads(result.read_bytes()) if result.exists() else None


@pytest.mark.timeout(240)
def test_a_marker_that_is_not_counted_loses_records_in_splits(tmp_path: Path) -> None:
    """Why markers are counted: with the first one kept, a split begins inside a payload."""
    from include.lake.formats.sequence.sequence_writer import sync_markers
    from tests.support.lake.hadoop_sequence_files import IDENTITY

    format_, batch = SequenceFile(**LAYOUTS[0]), messages(2_000, 3_000, hostile=True)
    path = tmp_path / "file"
    kept = next(sync_markers(IDENTITY))
    data = ours(format_, batch)
    own = data[79:95]
    assert own != kept
    path.write_bytes(data.replace(own, kept))
    expected = contents(format_, batch)
    assert read_alone(path, 1, format_._layout.key_class) == expected
    assert read_alone(path, 16, format_._layout.key_class) != expected
