# SPDX-License-Identifier: MIT
"""The options of qbcompile: what they say, checked as far as no model is needed.

What a model contradicts (an input that is not there) the passes refuse, with
the same exit code. `recorded` is what goes into the file as compiler.options:
all that shapes the program, in this page's order, no path (FM03).
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import pathlib
import re
import sys
from typing import Any, Callable, NoReturn

from . import __version__
from . import isa_tables as isa
from .canon import Interface
from .emit import MODES, Labels, plain
from .fuse import FUSIONS
from .graph import INPUT, LIMIT, Graph, fail
from .load import Sizes
from .report import Run

PASSES = ("load", "fold", "canon", "fuse", "lower", "plan", "emit", "validate")
MAX_STRING = 4096
INPUT_DTYPES = {"uint8": isa.U8, "float32": isa.F32}


class UsageError(Exception):
    """An option that is wrong, unknown or contradicts another (exit 2)."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see qbcompile --help")


@dataclasses.dataclass
class Settings:
    model: str
    output: str
    sizes: Sizes
    interface: Interface
    no_fuse: frozenset[str]
    aliases: bool
    target: int
    modes: tuple[int, ...]
    name: str
    meta: dict[str, str]
    report: str
    explain: bool
    verbose: bool
    quiet: bool
    recorded: list[str]

    @property
    def source(self) -> str:
        """What the file may say of where it came from."""
        return "stdin" if self.model == "-" else pathlib.PurePath(self.model).name


def parser(version: str) -> Parser:
    p = Parser(
        prog="qbcompile",
        usage="qbcompile [options] MODEL.onnx -o OUT.qbm",
        description="Compile an ONNX model to the .qbm container.",
        allow_abbrev=False,
    )
    add = p.add_argument
    add("model", nargs="?", metavar="MODEL.onnx", help="the model, - for stdin")
    add("-o", dest="output", metavar="FILE", help="result; default MODEL.qbm")
    each: dict[str, Any] = {"action": "append", "default": []}
    add("--shape", metavar="NAME=DIMS", **each, help="fix an input's shape")
    add("--dim", metavar="SYMBOL=N", **each, help="fix a symbolic extent")
    add("--outputs", metavar="A,B", help="cut the graph at these tensors")
    add("--input-dtype", metavar="NAME=T", **each, help="uint8 or float32")
    add("--input-layout", metavar="NAME=L", **each, help="the model's: nchw or nhwc")
    add("--mean", metavar="M[,M...]", help="image inputs: (x - mean) / std, one number")
    add("--std", metavar="S[,S...]", help="or one per channel")
    add("--io-rank", type=int, metavar="N", help="at least N axes for each shape")
    add("--target", choices=isa.TARGET_NAMES, default="any")
    add("--core-modes", metavar="LIST", help="of " + ", ".join(MODES) + ", or all")
    add(
        "--no-fuse",
        metavar="NAME",
        choices=FUSIONS,
        **each,
        help="a fusion that shall not happen: " + ", ".join(FUSIONS),
    )
    add("-O", dest="level", type=int, choices=(0, 1), default=1, help="0: no fusion")
    add("--report", metavar="FILE.json", help="what was done, as JSON")
    add("--labels", metavar="FILE", help="names of the classes, one per line")
    add("--meta", metavar="KEY=VALUE", **each, help="kept in the file")
    add("--name", help="the model's name; default: the graph's")
    add("--explain", action="store_true", help="what became of each node")
    add(
        "--list-ops",
        nargs="?",
        const="text",
        choices=("text", "json"),
        help="the operators that can be compiled",
    )
    talk = p.add_mutually_exclusive_group()
    talk.add_argument("-v", dest="verbose", action="store_true", help="name the passes")
    talk.add_argument("-q", dest="quiet", action="store_true", help="no progress")
    add("--version", action="version", version=f"qbcompile {version}")
    return p


def pairs(option: str, items: list[str]) -> dict[str, str]:
    """NAME=VALUE items; a name that comes twice contradicts itself."""
    found: dict[str, str] = {}
    for item in items:
        # Names of tensors may hold "=", values of these options never do;
        # --meta is the other way round.
        cut = item.partition if option == "--meta" else item.rpartition
        name, equals, value = cut("=")
        if not equals or not name:
            raise UsageError(f"{option} {item}: expected NAME=VALUE")
        if name in found:
            raise UsageError(f"{option}: '{name}' is given twice")
        found[name] = value
    return found


def extents(option: str, text: str) -> tuple[int, ...]:
    """Positive whole numbers between commas; "" is a shape without axes."""
    if text == "":
        return ()
    if not re.fullmatch(r"[0-9]{1,18}(,[0-9]{1,18})*", text):
        raise UsageError(f"{option}: '{text}' is not a list of extents")
    shape = tuple(int(n) for n in text.split(","))
    if min(shape) < 1:
        raise UsageError(f"{option}: '{text}': extents are at least 1")
    return shape


def numbers(option: str, text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option}: '{text}' is not a list of numbers") from None
    for value in values:
        if not math.isfinite(value) or not abs(value) < 2.0**64:
            raise UsageError(f"{option}: {value} is out of range")
        if option == "--std" and value < 2.0**-64:
            raise UsageError(f"{option}: {value} is not positive")
    return values


def core_modes(text: str | None, target: str) -> tuple[int, ...]:
    if text is None:
        # Of the named targets only ARIES has more than one core (QC60).
        text = "all" if target.startswith("aries") else "single"
    names = list(MODES) if text == "all" else text.split(",")
    for name in names:
        if name not in MODES:
            raise UsageError(f"--core-modes: '{name}' is not one of {', '.join(MODES)}")
    return tuple(sorted({MODES[name] for name in names}))


def settings(args: Any) -> Settings:
    if args.model is None:
        raise UsageError("no model given; see qbcompile --help")
    sizes, interface = Sizes(), Interface()
    for name, text in pairs("--shape", args.shape).items():
        sizes.shapes[name] = extents("--shape", text)
    for name, text in pairs("--dim", args.dim).items():
        shape = extents("--dim", text)
        if len(shape) != 1:
            raise UsageError(f"--dim: '{text}' is not one extent")
        sizes.dims[name] = shape[0]
    if args.outputs is not None:
        sizes.outputs = tuple(args.outputs.split(","))
        if len(set(sizes.outputs)) != len(sizes.outputs):
            raise UsageError("--outputs: a tensor is named twice")
    for name, text in pairs("--input-dtype", args.input_dtype).items():
        interface.dtypes[name] = choice("--input-dtype", text, INPUT_DTYPES.get)
    for name, text in pairs("--input-layout", args.input_layout).items():
        known = {"nchw": "nchw", "nhwc": "nhwc"}
        interface.layouts[name] = choice("--input-layout", text, known.get)
    interface.mean = numbers("--mean", args.mean)
    interface.std = numbers("--std", args.std)
    if args.io_rank is not None and not 1 <= args.io_rank <= 6:
        raise UsageError("--io-rank: 1 to 6")
    interface.io_rank = args.io_rank or 0
    off = frozenset(FUSIONS) if args.level == 0 else frozenset(args.no_fuse)
    return Settings(
        model=args.model,
        output=output_name(args),
        sizes=sizes,
        interface=interface,
        no_fuse=off,
        aliases=args.level > 0,
        target=isa.TARGET_NAMES.index(args.target),
        modes=core_modes(args.core_modes, args.target),
        name=args.name or "",
        meta=read_meta(args),
        report=args.report or "",
        explain=args.explain,
        verbose=args.verbose,
        quiet=args.quiet,
        recorded=record(args),
    )


def choice(option: str, text: str, known: Callable[[str], Any]) -> Any:
    value = known(text)
    if value is None:
        raise UsageError(f"{option}: '{text}' is not supported")
    return value


def output_name(args: Any) -> str:
    if args.output == "-":
        if sys.stdout.isatty():
            raise UsageError("-o -: a model is not written to a terminal")
        if args.explain:
            raise UsageError("--explain and -o - both want stdout")
    if args.output:
        same = args.model != "-" and os.path.exists(args.output)
        if same and os.path.realpath(args.output) == os.path.realpath(args.model):
            raise UsageError("-o names the model itself")
        return str(args.output)
    if args.model == "-":
        raise UsageError("a model from stdin needs -o")
    return str(pathlib.PurePath(args.model).with_suffix(".qbm"))


def record(args: Any) -> list[str]:
    """The options that shape the program, in a fixed order."""
    out: list[str] = []
    for name in ("shape", "dim", "input_dtype", "input_layout"):
        for item in sorted(getattr(args, name)):
            out += ["--" + name.replace("_", "-"), item]
    for name in ("outputs", "mean", "std", "io_rank", "core_modes"):
        value = getattr(args, name)
        if value is not None:
            out += ["--" + name.replace("_", "-"), str(value)]
    if args.target != "any":
        out += ["--target", args.target]
    for item in sorted(set(args.no_fuse)):
        out += ["--no-fuse", item]
    return out + (["-O0"] if args.level == 0 else [])


def read_meta(args: Any) -> dict[str, str]:
    """--meta, --labels and --name as META entries."""
    meta = pairs("--meta", args.meta)
    for key in meta:
        if key.startswith(("source.", "compiler.", "quant.")):
            raise UsageError(f"--meta: '{key}' is the compiler's own")
    if args.labels is not None:
        if "labels" in meta:
            raise UsageError("--labels and --meta labels=")
        try:
            text = pathlib.Path(args.labels).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise fail(INPUT, f"--labels {args.labels}: {reason}") from None
        meta["labels"] = "\n".join(text.splitlines())
    if args.name is not None:
        if "model.name" in meta:
            raise UsageError("--name and --meta model.name=")
        meta["model.name"] = args.name
    for key, value in meta.items():
        if not key.isprintable() or not value.replace("\n", "").isprintable():
            raise UsageError(f"META '{plain(key, 80)}': control characters")
        if len(value.encode()) > MAX_STRING or len(key.encode()) > MAX_STRING:
            raise fail(LIMIT, f"META '{plain(key, 80)}': more than {MAX_STRING} bytes")
    return meta


def labels(given: Settings, run: Run, graph: Graph) -> Labels:
    """META and the other words of the file."""
    stem = pathlib.PurePath(given.source).stem
    meta = {
        "model.name": plain(graph.name, 200) or plain(stem, 200),
        "source.file": plain(given.source, 200),
        "source.sha256": run.sha256,
        "source.opset": str(graph.opset),
        "compiler.version": __version__,
        "compiler.options": plain(run.options, MAX_STRING),
    }
    if graph.producer:
        meta["source.producer"] = plain(graph.producer, 200)
    meta.update(given.meta)
    if len(given.modes) > 1:
        graph.warnings.append(
            "W02: several core modes; users must name one in their ModelConfig"
        )
    return Labels(f"qbcompile {__version__}", meta, given.target, given.modes)
