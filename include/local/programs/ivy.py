"""Downloads from Maven repositories by the Ivy that ships inside pyspark: no host is named, checksums are checked."""

from __future__ import annotations

import importlib.util
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from include.clock import Clock
from include.errors import Terminal, Transient
from include.local.programs.download import folder_mb, free_mb, watch
from include.local.programs.java import system_java
from include.local.services import IvyPackage, Maven, Service

__all__ = ["fetch", "ivy_xml"]

_FULL_MB = 16
_MAVEN = "http://ant.apache.org/ivy/maven"


def ivy_xml(rows: Sequence[Service]) -> str:
    """Ivy's module file for these services, one configuration each."""
    ET.register_namespace("m", _MAVEN)
    module = ET.Element("ivy-module", version="2.0")
    ET.SubElement(module, "info", organisation="local", module="stack", revision="1")
    configurations = ET.SubElement(module, "configurations", defaultconfmapping="*->default")
    dependencies = ET.SubElement(module, "dependencies")
    for row in rows:
        if not isinstance(row.artefact, IvyPackage):
            continue
        ET.SubElement(configurations, "conf", name=row.name)
        for maven in row.artefact.modules:
            dependencies.append(_dependency(row.name, maven))
    return ET.tostring(module, encoding="unicode")


def _dependency(service: str, maven: Maven) -> ET.Element:
    element = ET.Element(
        "dependency",
        conf=f"{service}->default",
        org=maven.organisation,
        name=maven.name,
        rev=maven.version,
        transitive=str(maven.transitive).lower(),
    )
    if maven.kind != "jar" or maven.classifier:
        artefact = ET.SubElement(element, "artifact", name=maven.name, type=maven.kind, ext=maven.kind)
        if maven.classifier:
            artefact.set(f"{{{_MAVEN}}}classifier", maven.classifier)
    return element


def fetch(rows: Sequence[Service], cache: Path, target: Path, clock: Clock) -> None:
    """Download the artefacts of `rows` into `target/<service>/`, by way of `cache`, which keeps whole files.

    Transient when the network fails, Terminal when the disk is full or there is no Java.
    """
    cache.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    description = target / "ivy.xml"
    description.write_text(ivy_xml(rows))
    log = target / "ivy.log"
    argv = [
        system_java().command,
        "-jar",
        str(_jar()),
        "-cache",
        str(cache),
        "-ivy",
        str(description),
        "-retrieve",
        f"{target}/[conf]/[artifact]-[revision](-[classifier]).[ext]",
    ]
    title = "Downloading " + ", ".join(row.name for row in rows)
    total_mb = sum(row.artefact.download_mb for row in rows if isinstance(row.artefact, IvyPackage))
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own words
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=target
        )
        try:
            code = watch(process, title, total_mb, lambda: folder_mb(cache), clock)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if code != 0:
        raise _failure(log.read_text(errors="replace"), cache)


def _failure(text: str, cache: Path) -> Exception:
    # Ivy does not always say why it could not write; its log may have been cut by the same want of space.
    if "No space left on device" in text or free_mb(cache) < _FULL_MB:
        return Terminal(
            f"the disk of {cache} is full",
            fix="Free some space, or set LYREBIRD_CACHE to a folder on a larger disk.",
        )
    telling = [
        line.strip()
        for line in text.splitlines()
        if any(word in line for word in ("not found", "Exception", "ERROR", "Server access"))
    ]
    said = " | ".join(telling[:3]) or text.strip()[-300:]
    return Transient(
        f"downloads failed: {said}",
        fix="Check the network (a proxy: JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…) and run `lyrebird up` again; "
        "what is complete is kept.",
        system="Maven repository",
    )


def _jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    found = sorted(folder.glob("ivy-*.jar")) if folder else []
    if not found:
        raise Terminal("pyspark is not installed", fix="Run: pip install -r requirements.txt")
    return found[-1]
