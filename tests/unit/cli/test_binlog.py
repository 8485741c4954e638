"""`lyrebird binlog cat` as a process sees it: lines, what is named on stderr, exit codes."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner, Result

from include.cli.binlog import command
from include.errors import SettingsError
from tests.support.golden.recording import load
from tests.support.paths import GOLDEN

INTEGERS = GOLDEN / "mariadb-11.4" / "integers.binlog"
IMAGES = GOLDEN / "mysql-9.7" / "image-minimal.binlog"


def cat(*words: Any) -> Result:
    return CliRunner().invoke(command, ["cat", *map(str, words)])


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_row_is_one_object_with_the_fields_that_are_promised() -> None:
    result = cat(INTEGERS)
    found = lines(result)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert list(found[0]) == [
        "file", "pos", "gtid", "server_id", "timestamp", "database", "table", "op", "before", "after",
    ]  # fmt: skip
    assert {line["op"] for line in found} == {"c", "u", "d"}
    assert found[-1]["after"] is None
    assert found[0]["before"] is None


def test_compressed_files_and_archives_say_what_their_files_say(tmp_path: Path) -> None:
    plain = [{**line, "file": ""} for line in lines(cat(INTEGERS))]
    (tmp_path / "bin.000001.gz").write_bytes(gzip.compress(INTEGERS.read_bytes()))
    (tmp_path / "bin.000001.zst").write_bytes(zstandard.compress(INTEGERS.read_bytes()))
    with tarfile.open(tmp_path / "bin.tar", "w") as archive:
        archive.add(INTEGERS, "logs/bin.000001")
    for name in ("bin.000001.gz", "bin.000001.zst", "bin.tar"):
        result = cat(tmp_path / name)
        assert result.exit_code == 0
        assert {line["file"] for line in lines(result)} == {"bin.000001"}
        assert [{**line, "file": ""} for line in lines(result)] == plain


def test_several_files_follow_each_other() -> None:
    result = cat(INTEGERS, IMAGES)
    assert result.exit_code == 0
    assert lines(result) == lines(cat(INTEGERS)) + lines(cat(IMAGES))


def test_a_file_cut_short_ends_with_4_after_what_was_whole(tmp_path: Path) -> None:
    whole = lines(cat(INTEGERS))
    cut = tmp_path / "integers.binlog"
    cut.write_bytes(INTEGERS.read_bytes()[:-200])
    result = cat(cut)
    assert result.exit_code == 4
    assert 0 < len(lines(result)) < len(whole)
    assert lines(result) == whole[: len(lines(result))]
    assert "ends inside" in result.stderr


def test_what_is_no_binlog_ends_with_4_and_others_are_still_read(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not a binlog")
    for words in ((other, INTEGERS), (tmp_path, INTEGERS)):
        result = cat(*words)
        assert result.exit_code == 4
        assert len(lines(result)) == len(lines(cat(INTEGERS)))
        assert result.stderr.count("error:") == 1


def test_tables_that_are_not_told_are_named_and_read_by_a_schema(tmp_path: Path) -> None:
    recording = load("mariadb-11.4", "old-decimal")
    file = GOLDEN / "mariadb-11.4" / "old-decimal.binlog"
    result = cat(file)
    assert (result.exit_code, lines(result)) == (3, [])
    assert result.stderr.count("t1dec102") == 1
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(recording.schema()))
    result = cat(file, "--schema", schema)
    assert result.exit_code == 0
    assert [line["after"] for line in lines(result)][:2] == [{"a": "1.50"}, {"a": "-1234567.89"}]


def test_table_chooses_and_a_name_without_a_database_is_refused() -> None:
    assert {line["table"] for line in lines(cat(IMAGES, "--table", "golden.pair"))} == {"pair"}
    assert lines(cat(IMAGES, "--table", "golden.none")) == []
    assert isinstance(cat(IMAGES, "--table", "pair").exception, SettingsError)


@pytest.mark.parametrize("text", ["{", "{}", "[1]"])
def test_a_schema_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(text)
    assert cat(INTEGERS, "--schema", schema).exception is not None
    assert cat(INTEGERS, "--schema", schema).stdout == ""


def test_columns_that_an_image_lacks_are_left_out() -> None:
    updates = [line for line in lines(cat(IMAGES)) if line["op"] == "u"]
    assert any(len(line["before"]) < len(line["after"]) for line in updates)
    assert all(set(line["before"]) <= set(line["after"]) for line in updates)


def test_avro_gives_images_in_hex_behind_their_schema() -> None:
    found = lines(cat(INTEGERS, "--avro"))
    assert found[0]["schema"]["type"] == "record"
    assert [set(line["after"]) for line in found[1:] if line["after"]] == [{"hex"}] * sum(
        line["after"] is not None for line in found[1:]
    )


def test_a_reader_that_goes_away_is_no_error() -> None:
    many = [str(INTEGERS)] * 400
    code = f"import sys; sys.argv[1:] = ['cat', *{many!r}]; from include.cli.binlog import command; command()"
    read, write = os.pipe()
    with subprocess.Popen([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE) as process:
        os.close(write)
        assert os.read(read, 10)
        os.close(read)
        assert process.communicate()[1] == b""
    assert process.returncode == 0
