# SPDX-License-Identifier: MIT
"""What doctor --capture keeps of a system with nodes (section 10)."""

import json
import os
import shutil
import subprocess

import cases
import pytest

# a system of its own: /dev/null is a device node that anybody may bind
LIVE = """set -e
bind() { mkdir -p "$ROOT$1"; mount --rbind "$1" "$ROOT$1"; }
for folder in /usr /bin /lib /lib64 /proc "$LD_LIBRARY_PATH" "$BIN"; do
    [ ! -d "$folder" ] || bind "$folder"
done
for node in null accel/accel0 accel/accel1; do
    : >>"$ROOT/dev/$node"
    mount --bind /dev/null "$ROOT/dev/$node"
done
chroot "$ROOT" "$BIN/qbinfo" summary --json >"$ROOT/live.json"
chroot "$ROOT" "$BIN/qbinfo" doctor --capture /captured || [ $? = 3 ]
"""


# I53
def test_a_capture_keeps_the_links_of_nodes(tree):
    if cases.IS_SANITIZED:
        pytest.skip("the sanitizer wants more than this small system has")
    root = tree("mixed")
    shutil.rmtree(root / "dev" / "dri")
    env = cases.environment(
        PATH="/usr/bin:/bin:/usr/sbin:/sbin",
        ROOT=str(root),
        BIN=os.path.dirname(cases.QBINFO),
    )
    unshare = ["unshare", "-rm"]
    if not shutil.which("unshare") or subprocess.call([*unshare, "true"]):
        pytest.skip("this machine gives nobody a system of their own")
    words = [*unshare, "sh", "-c", LIVE]
    done = subprocess.run(words, capture_output=True, env=env, check=False)
    assert done.returncode == 0, done
    live = json.loads((root / "live.json").read_text())["drm_nodes"]
    assert [node["bus_address"] for node in live] == ["0000:00:0b.0"]
    again = cases.data("--sysroot", root / "captured")
    assert again["drm_nodes"] == live
    assert "/dev/accel/accel0" in again["warnings"][0]["text"]
