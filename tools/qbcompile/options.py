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
import pathlib
import re
import sys
from typing import Any, Callable, NoReturn, Sequence

from . import __version__, files
from . import isa_tables as isa
from .canon import Interface
from .emit import MODES, Labels, plain
from .fuse import FUSIONS
from .graph import INPUT, LIMIT, Graph, fail
from .load import Sizes
from .report import Run

PASSES = ("load", "fold", "canon", "fuse", "lower", "plan", "emit", "validate")
MAX_STRING = 4096
MAX_LABELS = 1 << 20
# Plain ASCII: what int() and float() take beyond it is no number to people.
_WHOLE = re.compile("[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
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
    def written(self) -> list[tuple[str, files.Name]]:
        """What this run writes: which option says so, and the file."""
        named: list[tuple[str, files.Name]] = [("-o", self.output)]
        named += [("--report", self.report)] if self.report else []
        return [entry for entry in named if entry != ("-o", "-")]

    @property
    def source(self) -> str:
        """What the file may say of where it came from."""
        return "stdin" if self.model == "-" else pathlib.PurePath(self.model).name


def join_lists(argv: Sequence[str]) -> list[str]:
    """`--mean -1,2` as `--mean=-1,2`: argparse takes -1,2 for an option."""
    joined: list[str] = []
    for item in argv:
        if joined[-1:] in (["--mean"], ["--std"]) and re.match(r"-[0-9.]", item):
            joined[-1] += f"={item}"
        else:
            joined.append(item)
    return joined


def whole(text: str) -> int:
    """An argument that is a plain whole number."""
    if not _WHOLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number")
    return int(text)


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
    add("--io-rank", type=whole, metavar="N", help="at least N axes for each shape")
    add("--target", choices=isa.TARGET_NAMES, default="any")
    add(
        "--core-modes",
        metavar="LIST",
        help="of " + ", ".join(MODES) + ", or all; default single",
    )
    add(
        "--no-fuse",
        metavar="NAME",
        choices=FUSIONS,
        **each,
        help="a fusion that shall not happen: " + ", ".join(FUSIONS),
    )
    add("-O", dest="level", type=whole, choices=(0, 1), default=1, help="0: no fusion")
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
    if not all(_NUMBER.fullmatch(part) for part in text.split(",")):
        raise UsageError(f"{option}: '{text}' is not a list of numbers")
    values = tuple(float(part) for part in text.split(","))
    for value in values:
        if not math.isfinite(value) or not abs(value) < 2.0**64:
            raise UsageError(f"{option}: {value} is out of range")
        if option == "--std" and value < 2.0**-64:
            raise UsageError(f"{option}: {value} is not positive")
    return values


def core_modes(text: str | None, target: str) -> tuple[int, ...]:
    # Of the named targets only ARIES has more than one core (QC60).
    able = list(MODES) if target == "any" or target.startswith("aries") else ["single"]
    if text is None:
        text = "single"
    names = able if text == "all" else text.split(",")
    for name in names:
        if name not in MODES:
            raise UsageError(f"--core-modes: '{name}' is not one of {', '.join(MODES)}")
        if name not in able:
            raise UsageError(f"--core-modes: {target} has no mode '{name}'")
    return tuple(sorted({MODES[name] for name in names}))


def check_texts(args: Any) -> None:
    """Every argument is text in the locale's encoding, and no file is ''."""
    for option, value in vars(args).items():
        for text in value if isinstance(value, list) else [value]:
            if option in ("model", "output", "report", "labels"):
                continue
            if isinstance(text, str) and not text.isascii():
                try:
                    text.encode()
                except UnicodeEncodeError:
                    raise UsageError(
                        f"--{option.replace('_', '-')}: '{text}' is not text in the "
                        "encoding of the locale"
                    ) from None
    for option in ("output", "report", "labels"):
        if getattr(args, option) == "":
            raise UsageError(f"the name of the {option} file is empty")


def settings(args: Any) -> Settings:
    if args.model is None:
        raise UsageError("no model given; see qbcompile --help")
    check_texts(args)
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
        if "" in sizes.outputs:
            raise UsageError(f"--outputs: '{args.outputs}' has an empty name")
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
    given = Settings(
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
    source = "/dev/stdin" if args.model == "-" else args.model
    inputs = [("the model itself", source)]
    inputs += [("the labels", args.labels)] if args.labels else []
    try:
        files.check_apart(inputs, given.written)
    except files.Clash as error:
        raise UsageError(str(error)) from None
    return given


def choice(option: str, text: str, known: Callable[[str], Any]) -> Any:
    value = known(text)
    if value is None:
        raise UsageError(f"{option}: '{text}' is not supported")
    return value


def output_name(args: Any) -> str:
    if args.output == "-":
        if sys.stdout is not None and sys.stdout.isatty():
            raise UsageError("-o -: a model is not written to a terminal")
        if args.explain:
            raise UsageError("--explain and -o - both want stdout")
    if args.output is not None:
        return str(args.output)
    if args.model == "-":
        raise UsageError("a model from stdin needs -o")
    path = pathlib.PurePath(args.model)
    if not path.name:
        raise fail(INPUT, f"'{args.model}' is not the name of a model")
    return str(path.with_suffix(".qbm"))


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
            text = files.read_regular(args.labels, MAX_LABELS).decode()
        except files.FileError as error:
            raise fail(INPUT, f"--labels {error}") from None
        except UnicodeDecodeError:
            raise fail(INPUT, f"--labels {args.labels}: not UTF-8") from None
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
