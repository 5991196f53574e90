#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train the built-in model: handwritten digits, 8x8 pixels, NumPy only.

Writes digits.onnx, digits.qbm, digits-16.u8 and digits-16.txt beside this
script. The data are the 1,797 images of digits.csv.gz as Debian's package
python3-sklearn 1.2.1 carries them (take it out of the package, no need to
install it):

    apt-get download python3-sklearn
    dpkg-deb --fsys-tarfile python3-sklearn_*.deb |
        tar -xf - --wildcards '*digits.csv.gz'
    PYTHONPATH=tools python3 examples/train_digits.py usr/lib/.../digits.csv.gz

Every fifth image (number mod 5 = 4, from 0) is held out. A second run reaches
the same accuracy, not the same bytes; compiling digits.onnx again
(--compile-only) does give the same digits.qbm.
"""

import argparse
import gzip
import hashlib
import io
import pathlib
import sys
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

ATTRIBUTION = """\
Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, 1998,
UCI Machine Learning Repository, data set 80. Licence of the data: CC BY 4.0,
https://creativecommons.org/licenses/by/4.0/ (values kept, 16 images chosen).
"""
CSV_SHA256 = "46abec6b12486ad9e51943373abcf22bbea1b5a51a1619b361570d8893f1464a"
SEED = 20240
EPOCHS = 70
BATCH = 64
RATE = 3e-3
DECAY = 1e-3
# Weights of a layer: [out][in * 9] for convolutions, [out][in] for the last.
LAYERS = {"conv1": (16, 9), "conv2": (16, 144), "conv3": (32, 144), "fc": (10, 128)}


def load_csv(path: pathlib.Path) -> tuple[Array, Array]:
    """Images u8 [n,8,8,1] (0..16) and labels [n]."""
    packed = path.read_bytes()
    if hashlib.sha256(packed).hexdigest() != CSV_SHA256:
        sys.exit(f"{path}: not the digits.csv.gz that this script was made for")
    rows = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",")
    return rows[:, :64].astype(np.uint8).reshape(-1, 8, 8, 1), rows[:, 64].astype(int)


def patches(x: Array) -> Array:
    """3x3 neighbourhoods with zero border: [n,h,w,c] to [n*h*w, 9*c]."""
    n, h, w, c = x.shape
    wide = np.zeros((n, h + 2, w + 2, c), x.dtype)
    wide[:, 1:-1, 1:-1] = x
    cols = [wide[:, i : i + h, j : j + w] for i in range(3) for j in range(3)]
    stacked: Array = np.stack(cols, axis=3)
    return stacked.reshape(n * h * w, 9 * c)


def unpatch(grad: Array, shape: tuple[int, ...]) -> Array:
    """The transpose of patches()."""
    n, h, w, c = shape
    grad = grad.reshape(n, h, w, 9, c)
    wide = np.zeros((n, h + 2, w + 2, c), grad.dtype)
    for k in range(9):
        wide[:, k // 3 : k // 3 + h, k % 3 : k % 3 + w] += grad[:, :, :, k]
    return wide[:, 1:-1, 1:-1]


def pool(x: Array) -> tuple[Array, Array]:
    """2x2 maximum and the mask of the winners (ties share)."""
    n, h, w, c = x.shape
    cells = x.reshape(n, h // 2, 2, w // 2, 2, c)
    top = cells.max(axis=(2, 4), keepdims=True)
    mask = (cells == top).astype(x.dtype)
    return top.reshape(n, h // 2, w // 2, c), mask / mask.sum(
        axis=(2, 4), keepdims=True
    )


def unpool(grad: Array, mask: Array) -> Array:
    n, h, w, c = grad.shape
    spread: Array = mask * grad.reshape(n, h, 1, w, 1, c)
    return spread.reshape(n, 2 * h, 2 * w, c)


def forward(p: Arrays, x: Array) -> tuple[Array, Arrays]:
    """Logits and what backward() needs; x is f32 [n,8,8,1] in 0..1."""

    def conv(name: str, x: Array) -> tuple[Array, Array]:
        cols = patches(x)
        y = cols @ p[name + ".w"].T + p[name + ".b"]
        return cols, y.reshape(*x.shape[:3], -1)

    t: Arrays = {}
    t["c1"], y = conv("conv1", x)
    t["x1"] = np.maximum(y, 0)
    t["c2"], y = conv("conv2", t["x1"])
    t["x2"] = np.maximum(y + t["x1"], 0)
    t["p2"], t["m2"] = pool(t["x2"])
    t["c3"], y = conv("conv3", t["p2"])
    t["x3"] = np.maximum(y, 0)
    t["p3"], t["m3"] = pool(t["x3"])
    # ONNX flattens channels first.
    t["flat"] = t["p3"].transpose(0, 3, 1, 2).reshape(len(x), -1)
    return t["flat"] @ p["fc.w"].T + p["fc.b"], t


def backward(p: Arrays, t: Arrays, grad: Array) -> Arrays:
    """Gradients of all parameters from that of the logits."""
    g = {"fc.w": grad.T @ t["flat"], "fc.b": grad.sum(0)}

    def conv(name: str, cols: Array, grad: Array, shape: tuple[int, ...]) -> Array:
        flat = grad.reshape(-1, grad.shape[3])
        g[name + ".w"], g[name + ".b"] = flat.T @ cols, flat.sum(0)
        return unpatch(flat @ p[name + ".w"], shape)

    d = (grad @ p["fc.w"]).reshape(-1, 32, 2, 2).transpose(0, 2, 3, 1)
    d = unpool(d, t["m3"]) * (t["x3"] > 0)
    d = unpool(conv("conv3", t["c3"], d, t["p2"].shape), t["m2"]) * (t["x2"] > 0)
    d = (conv("conv2", t["c2"], d, t["x1"].shape) + d) * (t["x1"] > 0)
    conv("conv1", t["c1"], d, (len(grad), 8, 8, 1))
    return g


def shift(x: Array, rng: np.random.Generator) -> Array:
    """Each image moved by up to one pixel; what enters is 0."""
    out = np.zeros_like(x)
    for i, (dy, dx) in enumerate(rng.integers(-1, 2, (len(x), 2))):
        moved = x[i, max(dy, 0) : 8 + min(dy, 0), max(dx, 0) : 8 + min(dx, 0)]
        out[i, max(-dy, 0) : 8 - max(dy, 0), max(-dx, 0) : 8 - max(dx, 0)] = moved
    return out


def train(x: Array, labels: Array) -> Arrays:
    """Adam with decoupled decay and a cosine rate; returns f32 parameters."""
    rng = np.random.default_rng(SEED)
    p: Arrays = {}
    for name, (out, fan_in) in LAYERS.items():
        scale = np.sqrt(2.0 / fan_in)
        p[name + ".w"] = rng.normal(0, scale, (out, fan_in)).astype(np.float32)
        p[name + ".b"] = np.zeros(out, np.float32)
    m = {k: np.zeros_like(v) for k, v in p.items()}
    s = {k: np.zeros_like(v) for k, v in p.items()}
    steps, step = EPOCHS * (len(x) // BATCH), 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            pick = order[start : start + BATCH]
            logits, t = forward(p, shift(x[pick], rng))
            e = np.exp(logits - logits.max(1, keepdims=True))
            prob = e / e.sum(1, keepdims=True)
            prob[np.arange(BATCH), labels[pick]] -= 1
            g = backward(p, t, (prob / BATCH).astype(np.float32))
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for k, grad in g.items():
                m[k] += 0.1 * (grad - m[k])
                s[k] += 0.01 * (grad * grad - s[k])
                move = m[k] / (1 - 0.9**step)
                move = move / (np.sqrt(s[k] / (1 - 0.99**step)) + 1e-7)
                p[k] -= np.float32(rate) * (move + DECAY * p[k]).astype(np.float32)
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1} of {EPOCHS}", file=sys.stderr)
    return p


def save_onnx(p: Arrays, path: pathlib.Path, accuracy: str) -> None:
    """The network as an ONNX file, opset 13."""
    import onnx
    from onnx import helper, numpy_helper

    weights = {}
    for name, (out, fan_in) in LAYERS.items():
        w = p[name + ".w"]
        if name != "fc":
            w = w.reshape(out, 3, 3, fan_in // 9).transpose(0, 3, 1, 2)
        weights[name + ".w"] = np.ascontiguousarray(w)
        weights[name + ".b"] = p[name + ".b"]

    def conv(name: str, x: str, y: str) -> Any:
        form = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        inputs = [x, name + ".w", name + ".b"]
        return helper.make_node("Conv", inputs, [y], name=name, **form)

    def node(op: str, name: str, inputs: list[str], **form: Any) -> Any:
        return helper.make_node(op, inputs, [name], name=name, **form)

    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        conv("conv1", "image", "c1"),
        node("Relu", "relu1", ["c1"]),
        conv("conv2", "relu1", "c2"),
        node("Add", "add2", ["c2", "relu1"]),
        node("Relu", "relu2", ["add2"]),
        node("MaxPool", "pool2", ["relu2"], **window),
        conv("conv3", "pool2", "c3"),
        node("Relu", "relu3", ["c3"]),
        node("MaxPool", "pool3", ["relu3"], **window),
        node("Flatten", "flat", ["pool3"], axis=1),
        node("Gemm", "logits", ["flat", "fc.w", "fc.b"], transB=1),
    ]

    def value(name: str, shape: list[Any]) -> Any:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes,
        "digits",
        [value("image", ["N", 1, 8, 8])],
        [value("logits", ["N", 10])],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    model.producer_name = "train_digits.py"
    model.doc_string = "Weights: MIT. Trained on: " + ATTRIBUTION
    onnx.checker.check_model(model)
    helper.set_model_props(model, {"accuracy.top1": accuracy})
    path.write_bytes(model.SerializeToString())


def compile_model(folder: pathlib.Path) -> pathlib.Path:
    """digits.qbm from digits.onnx; the result depends on nothing else."""
    import onnx
    from qbcompile import cli

    props = onnx.load(folder / "digits.onnx").metadata_props
    out = folder / "digits.qbm"
    options = ["--shape", "image=1,1,8,8", "--input-dtype", "image=uint8"]
    options += ["--std", "16", "--name", "digits"]
    meta = {
        **{prop.key: prop.value for prop in props},
        "labels": "\n".join("0123456789"),
        "model.author": "The qbruntime authors",
        "model.licence": "MIT; trained on CC BY 4.0 data: UCI data set 80",
        "model.task": "image-classification",
    }
    for item in meta.items():
        options += ["--meta", "=".join(item)]
    status = cli.main([str(folder / "digits.onnx"), "-o", str(out), "-q", *options])
    if status != 0:
        sys.exit(status)
    return out


def save_samples(
    folder: pathlib.Path, images: Array, labels: Array, answers: list[int]
) -> None:
    """16 held-out digits as bytes, and what the compiled model says of each."""
    pick = np.arange(4, 80, 5)
    (folder / "digits-16.u8").write_bytes(images[pick].tobytes())
    lines = [
        "# 16 of the 1,797 images of",
        *("# " + s for s in ATTRIBUTION.splitlines()),
    ]
    lines.append("# number label answer (of digits.qbm)")
    lines += [f"{i} {labels[i]} {answers[i]}" for i in pick]
    (folder / "digits-16.txt").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("csv", type=pathlib.Path, help="digits.csv.gz")
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path(__file__).parent
    )
    parser.add_argument("--compile-only", action="store_true", help="keep digits.onnx")
    args = parser.parse_args()

    images, labels = load_csv(args.csv)
    held = np.arange(len(images)) % 5 == 4
    if not args.compile_only:
        x = images.astype(np.float32) / 16
        p = train(x[~held], labels[~held])
        right = (forward(p, x[held])[0].argmax(1) == labels[held]).mean()
        save_onnx(p, args.out / "digits.onnx", f"{right:.4f} digits-holdout")

    from qbcompile import container, evaluate

    out = compile_model(args.out)
    model = container.read(out.read_bytes())
    answers = [evaluate.run(model, {"image": i})["logits"].argmax() for i in images]
    save_samples(args.out, images, labels, answers)


if __name__ == "__main__":
    main()
