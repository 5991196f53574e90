# SPDX-License-Identifier: MIT
"""Captured systems as small texts: fixtures/NAME.tree, unpacked for --sysroot.

A line is one of (# begins a comment):
    include NAME            the lines of another tree first
    remove PATH             what that had there
    PATH = TEXT             a file with TEXT and a line feed (\\xNN for bytes)
    PATH -> TARGET          a link
    PATH/                   a folder
    PATH |                  a FIFO
    PATH * NUMBER           a file of that many digits
    PATH <<                 a file, up to a line with a single dot
    node CLASS NAME BUS ADDRESS DRIVER VENDOR DEVICE NUMBERS [STATUS]
                            sysfs and /dev of a DRM node
"""

import os
import pathlib
import shutil

HERE = pathlib.Path(__file__).parent
FOLDERS = {"accel": "dev/accel", "drm": "dev/dri"}


def names():
    """All fixtures."""
    return sorted(path.stem for path in (HERE / "fixtures").glob("*.tree"))


def _plain(text):
    return text.encode().decode("unicode_escape").encode("latin-1")


def _put(root, path, data):
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink() or place.is_file():
        place.unlink()
    place.write_bytes(data)


def _link(root, path, target):
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink() or place.is_file():
        place.unlink()
    place.symlink_to(target)


def _remove(root, path):
    place = root / path
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink()


def _node(root, words):
    """What sysfs has of a node: its class, its device, and where that sits."""
    kind, name, bus, address, driver, vendor, device, numbers, *status = words
    parent = f"sys/devices/{bus}0/{address}"
    node = f"{parent}/{kind}/{name}"
    _link(
        root,
        f"sys/class/{kind}/{name}",
        f"../../devices/{bus}0/{address}/{kind}/{name}",
    )
    _put(root, f"{node}/dev", f"{numbers}\n".encode())
    _link(root, f"{node}/device", f"../../../{address}")
    _link(root, f"{parent}/subsystem", f"../../../bus/{bus}")
    driver = os.fsdecode(_plain(driver))
    if driver != "-":
        _link(root, f"{parent}/driver", f"../../../bus/{bus}/drivers/{driver}")
    if vendor != "-":
        _put(root, f"{parent}/vendor", f"{vendor}\n".encode())
        _put(root, f"{parent}/device", f"{device}\n".encode())
    _put(
        root,
        f"{parent}/power/runtime_status",
        f"{status[0] if status else 'active'}\n".encode(),
    )
    _link(
        root, f"sys/bus/{bus}/devices/{address}", f"../../../devices/{bus}0/{address}"
    )
    if not name.startswith("card"):
        _put(root, f"{FOLDERS[kind]}/{name}", b"")


def _line(root, line, lines):
    words = line.split()
    if words[0] == "include":
        unpack(words[1], root)
    elif words[0] == "remove":
        _remove(root, words[1])
    elif words[0] == "node":
        _node(root, words[1:])
    elif line.endswith(" <<"):
        text = []
        for more in lines:
            if more == ".":
                break
            text.append(more + "\n")
        _put(root, words[0], "".join(text).encode())
    elif line.endswith(" |"):
        (root / words[0]).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(root / words[0])
    elif " * " in line:
        _put(root, words[0], b"7" * int(words[2]))
    elif " -> " in line:
        path, target = line.split(" -> ")
        _link(root, path, target)
    elif " = " in line:
        path, text = line.split(" = ", 1)
        _put(root, path, _plain(text) + b"\n")
    elif line.endswith("/"):
        (root / line).mkdir(parents=True, exist_ok=True)
    else:
        raise ValueError(f"what is {line!r}?")


def unpack(name, root):
    """Makes the tree below root, which may be there."""
    root = pathlib.Path(root)
    root.mkdir(parents=True, exist_ok=True)
    text = (HERE / "fixtures" / f"{name}.tree").read_text(encoding="utf-8")
    lines = iter(text.splitlines())
    for line in lines:
        line = line.rstrip()
        if line and not line.startswith("#"):
            _line(root, line, lines)
    return root


def add(root, line):
    """One more line for a tree that is there."""
    _line(pathlib.Path(root), line, iter(()))
