# SPDX-License-Identifier: MIT
"""What a newcomer asks first is the same by whatever way it is asked."""

import subprocess
import sys

import cases
import pytest

PROGRAM = """
from qbruntime import Accelerator, __version__
from qbruntime.accelerator import (
    get_available_device_numbers,
    get_available_devices,
)

infos = [
    Accelerator(name, number).info()
    for name in get_available_devices()
    for number in get_available_device_numbers(name)
]
print("version", __version__)
print("devices", len(infos))
for i in infos:
    print(i.id, i.memory_total, i.pinned_limit, i.clusters, i.local_cores_per_cluster,
          i.global_cores_per_cluster, *i.contiguity_classes)
"""


def _python(env):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        check=True,
        text=True,
        env=cases.environment(PYTHONPATH=cases.PACKAGES, **env),
    ).stdout


def _json(env):
    tool = cases.data("version", env=env)["qbinfo"]
    devices = cases.data("show", env=env)["devices"]
    lines = [f"version {tool['library_version']}", f"devices {len(devices)}"]
    for device in devices:
        memory, cores = device["memory"], device["cores"]
        words = [device["id"], memory["device_total_bytes"]]
        words += [memory["pinned_limit_bytes"], cores["clusters"]]
        words += [cores["local_per_cluster"], cores["global_per_cluster"]]
        words += device["caps"]["contiguity_classes"]
        lines.append(" ".join(map(str, words)))
    return "\n".join(lines) + "\n"


def _text(env):
    """From what a person reads: each report of a device begins at the margin."""
    version = cases.text("version", env=env).split("libqbruntime", 1)[1].split()[0]
    reports = cases.text("show", "-b", env=env).strip().split("\n\n")
    lines = [f"version {version}", f"devices {len(reports)}"]
    for report in reports:
        found = {}
        for line in report.splitlines()[1:]:
            words = line.split()
            for name in (
                "device total",
                "pinned limit",
                "clusters",
                "local per cluster",
                "global per cluster",
                "contiguity classes",
            ):
                if line.strip().startswith(name):
                    found[name] = words[len(name.split())]
        lines.append(
            " ".join(
                [
                    report.split(",")[0].split()[0],
                    found["device total"],
                    found["pinned limit"],
                    found["clusters"],
                    found["local per cluster"],
                    found["global per cluster"],
                    *found["contiguity classes"].split(","),
                ]
            )
        )
    return "\n".join(lines) + "\n"


# I37, U65: version, number of devices, memory, cores, contiguity
@pytest.mark.parametrize(
    "env",
    [
        {},
        {"QBRUNTIME_SOFT_DEVICES": "regulus:2,aries", "QBRUNTIME_SOFT_MEMORY": "1G"},
    ],
)
def test_c_python_text_and_json_say_the_same(env):
    told = subprocess.run(
        [cases.STAGE / "five-facts"],
        capture_output=True,
        check=True,
        text=True,
        env=cases.environment(**env),
    ).stdout
    assert told.count("\n") == 2 + (3 if env else 1)
    assert _json(env) == told
    assert _text(env) == told
    if cases.PACKAGES and not cases.IS_SANITIZED:
        assert _python(env) == told
