"""What is in this image, as a CycloneDX document: Python's distributions, Debian's packages, Java's archives.

Run by the last step of each image's build, in the image itself, with nothing but the standard library.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

Component = dict[str, Any]
_DEBIAN = "${db:Status-Status}\t${Package}\t${Version}\t${Architecture}\n"
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d.*)\.jar")


def document(image: str, version: str) -> dict[str, Any]:
    components = sorted([_python(), *_pypi(), *_debian(), *_java()], key=lambda each: str(each["bom-ref"]))
    content = json.dumps(components, sort_keys=True).encode()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The same content has the same number, so that an image built twice is the same image.
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=hashlib.sha256(content).digest()[:16], version=4)}",
        "version": 1,
        "metadata": {"component": {"type": "container", "bom-ref": image, "name": image, "version": version}},
        "components": components,
    }


def _component(kind: str, name: str, version: str, purl: str, licence: str = "") -> Component:
    made = {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
    # One line is a name or an SPDX expression. Some packages give their whole licence here.
    return made | {"licenses": [{"license": {"name": licence}}]} if licence and "\n" not in licence else made


def _python() -> Component:
    version = platform.python_version()
    return _component("platform", "python", version, f"pkg:generic/python@{version}", "PSF-2.0")


def _pypi() -> Iterator[Component]:
    for name, found in {_normal(each.metadata["Name"]): each for each in distributions()}.items():
        licence = found.metadata.get("License-Expression") or found.metadata.get("License") or ""
        yield _component("library", name, found.version, f"pkg:pypi/{name}@{quote(found.version)}", licence)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _debian() -> Iterator[Component]:
    release = platform.freedesktop_os_release()
    listed = subprocess.run(["dpkg-query", "-W", "-f", _DEBIAN], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        status, name, version, architecture = line.split("\t")
        if status == "installed":
            place = f"arch={architecture}&distro={release['ID']}-{release['VERSION_ID']}"
            yield _component("library", name, version, f"pkg:deb/{release['ID']}/{name}@{quote(version)}?{place}")


def _java() -> Iterator[Component]:
    """Archives name themselves if Maven made them; of the others the file's name tells."""
    for jar in sorted(path for folder in map(Path, sys.path) for path in folder.glob("pyspark/jars/*.jar")):
        named = _JAR.fullmatch(jar.name)
        name, version = (named["name"], named["version"]) if named else (jar.stem, "")
        group = _maven_group(jar, name)
        purl = f"pkg:maven/{group}/{name}@{quote(version)}" if group else f"pkg:generic/{name}@{quote(version)}"
        yield _component("library", f"{group}:{name}" if group else name, version, purl)


def _maven_group(jar: Path, name: str) -> str:
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.namelist():
            parts = entry.split("/")
            if parts[:2] == ["META-INF", "maven"] and parts[3:] == [name, "pom.properties"]:
                return parts[2]
    return ""


if __name__ == "__main__":
    json.dump(document(*sys.argv[1:3]), sys.stdout, indent=1)
    sys.stdout.write("\n")
