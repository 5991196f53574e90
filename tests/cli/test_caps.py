# SPDX-License-Identifier: MIT
"""caps: its lines, and whether they are true (docs/spec/qbinfo.md, I41, I42)."""

import json
import pathlib
import re
import subprocess
import sys

import cases
import pytest

QBM = pathlib.Path(cases.QBINFO).with_name("qbm")
DATA = cases.TOP / "tests" / "data"
NAMES = [
    entry[3].rsplit(".", 1)[-1]
    for entry in cases.table("fields")
    if entry[1] == "DEVICES" and re.match(r"kind$|caps\.", entry[3])
]


def _bindings(num):
    """A model of so many bindings: pairs that are copied."""
    names = [f"x{i}" for i in range(num - num // 2)] + [
        f"y{i}" for i in range(num // 2)
    ]
    roles = ["input" if name[0] == "x" else "output" for name in names]
    inputs, outputs = roles.count("input"), roles.count("output")
    dtype = "device_dtype=u8 host_dtype=u8 shape=[64]"
    lines = [
        'qbm 1.0 isa 1.0 producer="hand"',
        f'variant "v" inputs=0+{inputs} outputs={inputs}+{outputs} bundles=0+1 '
        "batch=1 mode_mask=1",
        'bundle "b" mode_mask=1 program=0,-,-,-,-',
    ]
    for i, (name, role) in enumerate(zip(names, roles)):
        lines.append(f'io {i} "{name}" role={role} {dtype}')
    lines.append("program 0")
    for i, (name, role) in enumerate(zip(names, roles)):
        lines.append(f"binding {i} {role} tensor=%{name} io={i} size=64")
    lines += [
        f"tensor %{name} u8 [64] binding={i} scale=1.0" for i, name in enumerate(names)
    ]
    lines.append("list 0")
    lines += [f"copy src=%x{i} dst=%y{i}" for i in range(outputs)]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder of models that need what a device may have."""
    folder = tmp_path_factory.mktemp("models")
    copy64 = (DATA / "golden" / "copy64.txt").read_text()
    modes = (DATA / "corpus" / "modes.txt").read_text()
    texts = {
        "copy64": copy64,
        "isa_1_1": copy64.replace("isa 1.0", "isa 1.1"),
        "container_2": copy64.replace("qbm 1.0", "qbm 2.0"),
        "modes": modes.replace(" target=aries-rb", ""),
        "int8": (DATA / "corpus" / "int8.txt").read_text(),
        "diag": (DATA / "corpus" / "fill_crc.txt").read_text(),
        "most": _bindings(64),
        "more": _bindings(65),
    }
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
        words = ["asm", "--raw", folder / f"{name}.txt", "-o", folder / f"{name}.qbm"]
        subprocess.run(
            [sys.executable, QBM, *words], check=True, env=cases.environment()
        )
    return folder


# I41
@pytest.mark.parametrize("profile", ["aries", "regulus"])
def test_what_is_told_works_and_what_is_not_is_refused(models, profile):
    if not cases.PACKAGES:
        pytest.skip("the Python package is not built")
    if cases.IS_SANITIZED:
        pytest.skip("Python is not built with the sanitizer")
    env = {"QBRUNTIME_SOFT_DEVICES": profile}
    (device,) = cases.data("caps", env=env)["devices"]
    caps = device["caps"]
    name, number = device["id"].split(":")
    script = cases.TOP / "tests" / "cli" / "try_caps.py"
    out = subprocess.run(
        [sys.executable, script, name, number, models],
        input=" ".join(caps["dtypes"]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=cases.environment(PYTHONPATH=cases.PACKAGES, **env),
    ).stdout
    found = json.loads(out)
    refused = found["refused"]
    assert device["kind"] == "software"
    assert found["modes"] == caps["core_modes"]
    # with both a dma-buf is given
    assert (found["export"] == "dmabuf") == caps["dmabuf_export"]
    assert found["export"] == "dmabuf" or caps["memfd_export"]
    assert found["import"]
    assert ("eventfd" in found["finish"]) == caps["fence_eventfd"]
    assert found["dtypes"] == caps["dtypes"] and len(found["dtypes"]) == 13
    # while there are huge pages no buffer is only locked
    assert found["classes"] and set(found["classes"]) <= set(caps["contiguity_classes"])
    assert caps["max_bindings"] == 64
    assert refused["most"] is None and refused["more"] == "Model_ProgramRejected"
    assert (refused["isa_1_1"] is None) == (caps["isa_version"] != "1.0")
    assert caps["container_versions"] == ["1.0"] and refused["container_2"]
    for feature in ("int8", "diag"):
        assert (refused[feature] is None) == (feature in caps["isa_features"])
    for feature in ("dmabuf_import", "sync_file", "syncobj_fd", "syncobj_timeline"):
        assert caps[feature] == (feature in found["features"])
    assert found["limits"] == [caps["max_jobs"], caps["max_queues"]]
    assert found["backends"] == caps["backends"]
    assert found["dlpack"] == [caps["dlpack_device_type"], caps["dlpack_device_id"]]


# I42
@pytest.mark.parametrize("root", [None, "soft", "mixed", "regulus", "lost", "hostile"])
def test_lines_are_names_values_and_comments(roots, root):
    words = ["caps", "0"] + (["--sysroot", roots / root] if root else [])
    full, bare = cases.text(*words).splitlines(), cases.text(*words, "-n").splitlines()
    assert [line.split("=")[0] for line in bare] == NAMES
    assert len(full) == len(bare)
    for long, short in zip(full, bare):
        assert re.fullmatch(r"[a-z_]+=\S+", short)
        assert long == short or re.fullmatch(re.escape(short) + r" +# \S.*", long)
    assert any("#" in line for line in full)


# I42
def test_comments_say_why(roots):
    out = cases.text("caps", "--sysroot", roots / "soft")
    assert re.search(r"^dmabuf_import=no +# no /dev/udmabuf here$", out, re.M)
    assert re.search(r"^cpu_isa=- +# 8-bit sums run on ref$", out, re.M)


def test_a_plugin_that_may_load_is_not_loaded_yet(tree):
    root = tree("soft")
    file = root / "devices.json"
    (device,) = json.loads(file.read_text())
    device["caps"]["backends"].append("onednn")
    device["caps"]["backend_in_use"] = None
    file.write_text(json.dumps([device]))
    out = cases.text("caps", "-n", "--sysroot", root)
    assert "backends=ref,onednn\n" in out and "backend_in_use=?\n" in out


def test_one_device_is_chosen(roots):
    root = ["--sysroot", roots / "four-chips"]
    ids = [
        cases.data("caps", *words, *root)["devices"][0]["id"]
        for words in ([], ["2"], ["-d", "2"], ["/dev/accel/accel1"])
    ]
    assert ids == ["aries-rb:0", "aries-rb:2", "aries-rb:2", "aries-rb:1"]
    assert cases.run("caps", "--sysroot", roots / "bare").returncode == 3
    env = {"QBRUNTIME_SOFT_DEVICES": "aries:1,regulus:1"}
    done = cases.run("caps", env=env)
    assert done.returncode == 3 and b"aries-rb:0, regulus-ra:0" in done.stderr
    assert cases.text("caps", "regulus", "-o", "id", env=env) == "id=regulus-ra:0\n"
