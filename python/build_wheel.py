# SPDX-License-Identifier: MIT
"""Builds the wheel of the package qbruntime: the backend (PEP 517) of

    pip install .
    pip install --config-settings overwrite=yes .

configure, make and make install run in a temporary folder, and the wheel holds
what they staged: the package, the library that its extension finds beside
itself, and the library's data folder. Needs what configure needs, and of
Python what comes with it. `build_wheel.py FOLDER` is what make install asks
before it writes to FOLDER.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Iterable, Mapping, Optional

TOP = Path(__file__).resolve().parents[1]
NAME = "qbruntime"
Settings = Optional[Mapping[str, str]]


def find_owner(folders: Iterable[str]) -> Optional[str]:
    """The other distribution that has a package of our name in these folders."""
    for distribution in metadata.distributions(path=list(folders)):
        name = distribution.metadata["Name"]
        if not name or re.sub("[-_.]+", "-", name).lower() == NAME:
            continue
        names = (distribution.read_text("top_level.txt") or "").split()
        names += [file.parts[0] for file in distribution.files or ()]
        if NAME in names:
            return str(name)
    return None


def refuse_another(folders: Iterable[str], option: str) -> None:
    """Ends the program where another distribution's files would be overwritten."""
    owner = find_owner(folders)
    if owner:
        sys.exit(
            f"the package {NAME} of the distribution {owner} is installed: "
            f"uninstall that one, or overwrite its files with {option}"
        )


def read_version() -> str:
    """The one place that has it is configure.ac."""
    text = (TOP / "configure.ac").read_text(encoding="utf-8")
    found = re.search(r"AC_INIT\(\[\w+\], \[([^]]+)\]", text)
    assert found
    return found[1]


def write_metadata(folder: Path) -> str:
    """Writes the folder .dist-info, all but RECORD; its name."""
    info = folder / f"{NAME}-{read_version()}.dist-info"
    info.mkdir()
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    (info / "METADATA").write_text(
        f"""Metadata-Version: 2.1
Name: {NAME}
Version: {read_version()}
Summary: An open userspace runtime for NPUs
License: MIT
Requires-Python: >=3.11
Requires-Dist: numpy
Description-Content-Type: text/markdown

{readme}""",
        encoding="utf-8",
    )
    (info / "WHEEL").write_text(
        f"Wheel-Version: 1.0\nGenerator: {NAME} {read_version()}\n"
        f"Root-Is-Purelib: false\nTag: {make_tag()}\n",
        encoding="utf-8",
    )
    shutil.copy(TOP / "COPYING", info)
    return info.name


def make_tag() -> str:
    """For every Python from 3.11 on of this machine's Linux."""
    return "cp311-abi3-" + re.sub("[-.]", "_", sysconfig.get_platform())


def stage(work: Path) -> Path:
    """Configures and makes in work; the folder below which all is installed."""
    if not (TOP / "configure").exists():
        subprocess.run(["autoreconf", "-fi"], cwd=TOP, check=True)
    build, root, rpath = work / "build", work / "root", work / "rpath"
    build.mkdir()
    # in a file of the linker's own, as make, libtool and a shell know $ too
    rpath.write_text("-rpath $ORIGIN/lib\n", encoding="utf-8")
    options = ["--quiet", "--with-python", "--without-tools", "--disable-static"]
    options += ["--prefix=/usr", "--libdir=/usr/lib", f"PYTHON={sys.executable}"]
    subprocess.run([TOP / "configure", *options], cwd=build, check=True)
    make = ["make", "-s", "SUBDIRS=kmod-shim lib python"]
    make += [f"EXTENSION_LDFLAGS=-Wl,@{rpath}"]
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    subprocess.run([*make, jobs], cwd=build, check=True)
    for folder, target in (
        ("lib", "install-strip"),
        ("python", "install-strip"),
        ("examples", "install-dist_digitsDATA"),
    ):
        install = ["-C", folder, target, f"DESTDIR={root}"]
        subprocess.run([*make, *install], cwd=build, check=True)
    return root


def collect(root: Path, content: Path) -> None:
    """What was staged, as the wheel has it."""
    [package] = root.glob(f"**/{NAME}/__init__.py")
    shutil.copytree(
        package.parent, content / NAME, ignore=shutil.ignore_patterns("*.la")
    )
    names = (root / "usr/lib").glob(f"lib{NAME}.so.*")
    [soname] = [path for path in names if path.is_symlink()]
    (content / NAME / "lib").mkdir()
    shutil.copy(soname, content / NAME / "lib")  # the link's file by the link's name
    shutil.copytree(root / "usr/lib" / NAME, content / NAME / "lib" / NAME)


def pack(content: Path, wheel: Path, info: str) -> None:
    """All files of the folder, and their RECORD, the same bytes each time."""
    record = ""
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as file:

        def add(name: str, data: bytes) -> None:
            entry = zipfile.ZipInfo(name)  # of 1980
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            file.writestr(entry, data)

        for path in sorted(content.rglob("*")):
            if path.is_file():
                name, data = path.relative_to(content).as_posix(), path.read_bytes()
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
                record += f"{name},sha256={digest.decode().rstrip('=')},{len(data)}\n"
                add(name, data)
        add(f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode())


def prepare_metadata_for_build_wheel(folder: str, settings: Settings = None) -> str:
    """The name of the folder that it writes."""
    return write_metadata(Path(folder))


def build_wheel(
    folder: str, settings: Settings = None, metadata_folder: Optional[str] = None
) -> str:
    """The name of the wheel that it writes."""
    if settings and dict(settings) != {"overwrite": "yes"}:
        sys.exit(f"the one setting is overwrite=yes: {dict(settings)}")
    if not settings:
        # where pip of this interpreter installs to
        places = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        places.append(site.getusersitepackages())
        refuse_another(places, "--config-settings overwrite=yes")
    with tempfile.TemporaryDirectory() as name:
        work, content = Path(name), Path(name) / "content"
        content.mkdir()
        collect(stage(work), content)
        info = write_metadata(content)
        wheel = f"{NAME}-{read_version()}-{make_tag()}.whl"
        pack(content, Path(folder) / wheel, info)
    return wheel


if __name__ == "__main__":
    refuse_another(sys.argv[1:], "OVERWRITE=yes")
