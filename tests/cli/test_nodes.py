# SPDX-License-Identifier: MIT
"""Other DRM nodes (docs/spec/qbinfo.md, 12.3)."""

import cases


def _nodes(roots, name):
    return cases.data("--sysroot", roots / name)["drm_nodes"]


# I70, K560, K563
def test_every_node_of_others_is_listed(roots):
    nodes = _nodes(roots, "mixed")
    assert [
        (n["node"], n["type"], n["driver"], n["version"], n["bus_address"])
        for n in nodes
    ] == [
        ("/dev/dri/renderD128", "render", "i915", "1.6.0", "0000:00:02.0"),
        ("/dev/accel/accel1", "accel", "intel_vpu", "1.0.0", "0000:00:0b.0"),
        ("/dev/dri/renderD129", "render", "amdgpu", None, "0000:0c:00.0"),
    ]
    assert (nodes[0]["vendor_id"], nodes[0]["device_id"]) == (0x8086, 0xA7A0)
    assert (nodes[0]["major"], nodes[0]["minor"]) == (226, 128)
    assert (nodes[0]["numa_node"], nodes[2]["numa_node"]) == (None, 1)
    # the DRM name where it could be asked, the module's always
    first = _nodes(roots, "accel-only")[0]
    assert (first["driver"], first["module"]) == ("amdxdna_accel_driver", "amdxdna")


# I71
def test_missing_folders_are_an_empty_list(roots):
    for words in (["list", "--drm"], ["list", "--drm", "--sysroot", roots / "bare"]):
        done = cases.run(*words)
        assert done.returncode == 0 and done.stderr == b""
    assert _nodes(roots, "bare") == []
    assert all(node["type"] == "accel" for node in _nodes(roots, "accel-only"))


# I73, K562
def test_a_node_that_may_not_be_opened_keeps_its_row(roots):
    document = cases.data("--sysroot", roots / "noperm")
    node = document["drm_nodes"][0]
    assert (node["driver"], node["version"], node["accessible"]) == (
        "i915",
        None,
        False,
    )
    entry = {"path": "drm_nodes[0].version", "reason": "no_permission", "detail": None}
    assert entry in document["unavailable"]


# I74
def test_primary_nodes_stand_with_their_render_node(roots, tree):
    nodes = _nodes(roots, "mixed")
    assert [n["primary_node"] for n in nodes] == [
        "/dev/dri/card0",
        None,
        "/dev/dri/card1",
    ]
    alone = tree("bare", "node drm card7 pci 0000:01:00.0 vkms 0x1 0x2 226:7")
    (alone / "dev" / "dri").mkdir(parents=True)
    (alone / "dev" / "dri" / "card7").write_text("")
    assert cases.data("--sysroot", alone)["drm_nodes"] == []


# I76
def test_rows_are_ordered_by_address_type_and_minor(tree):
    root = tree(
        "bare",
        "node drm renderD130 pci 0000:0a:00.0 b 0x1 0x2 226:130",
        "node drm renderD129 pci 0000:0a:00.0 b 0x1 0x2 226:129",
        "node accel accel0 pci 0000:0a:00.0 b 0x1 0x2 261:0",
        "node drm renderD128 pci 0000:10:00.0 c 0x1 0x2 226:128",
        "node accel accel1 pci 0000:02:00.0 a 0x1 0x2 261:1",
    )
    names = [
        n["node"].rsplit("/", 1)[1] for n in cases.data("--sysroot", root)["drm_nodes"]
    ]
    assert names == ["accel1", "renderD129", "renderD130", "accel0", "renderD128"]


# I77
def test_an_unknown_bus_is_unknown(roots):
    node = _nodes(roots, "accel-only")[2]
    assert node["bus"] == "unknown"
    assert node["extra"] == {"subsystem": "auxiliary"}
    assert node["bus_address"] == "npu.core.0"
