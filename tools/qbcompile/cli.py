# SPDX-License-Identifier: MIT
"""The command qbcompile: options, passes in order, exit codes (section 15).

Every option that is listed works; another one is a usage error. Data go to
stdout, words to stderr. A refused model leaves no file and never touches an
existing one (QE04): the result is written beside its place and renamed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import shlex
import sys
import tempfile
import time
from typing import Any, Optional, Sequence

import numpy as np

from . import __version__, canon, container, emit, fold, fuse, load, lower, options
from . import plan as planning
from .graph import (
    INPUT,
    INTERNAL,
    LIMIT,
    OK,
    OUTPUT,
    USAGE,
    CompileError,
    Problem,
    fail,
)
from .options import Settings
from .report import Run, explain, op_entries, op_lines, report

SLOW = 2.0  # seconds after which a terminal is told where the time goes (QL04)


class Progress:
    """Names the pass at hand: in `seconds`, with -v on stderr, or on a terminal."""

    def __init__(self, run: Run, verbose: bool, quiet: bool) -> None:
        self.run = run
        self.verbose = verbose
        self.live = sys.stderr.isatty() and not verbose and not quiet
        self.start = self.since = time.monotonic()
        self.name = ""
        self.shown = False

    def enter(self, name: str) -> None:
        now = time.monotonic()
        if self.name:
            self.run.seconds[self.name] = now - self.since
            if self.verbose:
                print(f"{self.name}: {now - self.since:.3f} s", file=sys.stderr)
        self.name, self.since = name, now
        if self.live and name and now - self.start > SLOW:
            share = 100 * (options.PASSES.index(name) if name in options.PASSES else 0)
            text = f"\r{share // len(options.PASSES):3} % {name:<10}"
            print(text, end="", file=sys.stderr, flush=True)
            self.shown = True

    def leave(self) -> None:
        self.enter("")
        if self.shown:
            print("\r" + " " * 20 + "\r", end="", file=sys.stderr, flush=True)


def read_model(name: str) -> tuple[bytes, Optional[pathlib.Path]]:
    """The model's bytes and the folder of its external data; `-` is stdin."""
    if name == "-":
        return sys.stdin.buffer.read(), None
    path = pathlib.Path(name)
    try:
        if not path.is_file():
            raise fail(INPUT, "not a file" if path.exists() else "no such file")
        return path.read_bytes(), path.parent
    except OSError as error:
        raise fail(INPUT, f"cannot be read: {error.strerror}") from None


def compile_model(
    data: bytes,
    folder: Optional[pathlib.Path],
    settings: Settings,
    run: Run,
    progress: Progress,
) -> bytes:
    """All passes; returns the bytes of the container. Raises CompileError."""
    run.sha256 = hashlib.sha256(data).hexdigest()
    try:
        progress.enter("load")
        graph = load.load(data, folder, settings.sizes)
    except load.SourcesError as error:
        run.sources = error.sources
        raise
    run.graph, run.sources = graph, graph.sources
    run.warnings = graph.warnings
    progress.enter("fold")
    fold.infer(graph)
    progress.enter("canon")
    canon.canon(graph, settings.interface)
    progress.enter("fuse")
    graph.warnings += fuse.idle(graph, settings.no_fuse)
    fuse.fuse(graph, settings.no_fuse)
    progress.enter("lower")
    lowered = lower.lower(graph, settings.interface)
    graph.warnings += lower.idle(lowered, settings.interface)
    progress.enter("plan")
    planned = planning.plan(lowered, settings.aliases)
    run.plan = planned
    progress.enter("emit")
    labels = options.labels(settings, run, graph)
    result = emit.emit(graph, lowered, planned, settings.interface, labels)
    try:
        blob = container.write(result)
    except ValueError as error:
        raise fail(LIMIT, f"cannot be stored: {error}") from None
    progress.enter("validate")
    warning = emit.verify(blob)
    graph.warnings += [warning] if warning else []
    run.result, run.file_bytes = result, len(blob)
    return blob


def write_file(name: str, data: bytes) -> None:
    """Beside its place first, then renamed, so nobody sees half a file."""
    path = pathlib.Path(name)
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(file.fileno(), 0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            pathlib.Path(temporary).unlink(missing_ok=True)
        raise fail(OUTPUT, f"{name}: cannot be written: {error.strerror}") from None


def write_result(settings: Settings, data: bytes) -> None:
    if settings.output != "-":
        write_file(settings.output, data)
        return
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        abandon_stdout()
        raise fail(OUTPUT, f"stdout: {error.strerror}") from None


def abandon_stdout() -> None:
    """Whoever read it has gone; what is still buffered shall not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_compiler(settings: Settings) -> int:
    """Everything after the options; returns the exit code."""
    run = Run(settings.source, shlex.join(settings.recorded))
    progress = Progress(run, settings.verbose, settings.quiet)
    blob = b""
    try:
        data, folder = read_model(settings.model)
        with np.errstate(all="ignore"):  # NaN and infinities are data
            blob = compile_model(data, folder, settings, run, progress)
    except CompileError as error:
        run.problems = error.problems
    except MemoryError:
        run.problems = [Problem(LIMIT, "not enough memory for this model")]
    except Exception as error:  # a bug: name the pass, show no traceback
        text = f"internal error in pass '{progress.name}': {type(error).__name__}: "
        text += f"{error}; please report it with the model"
        run.problems = [Problem(INTERNAL, text)]
    progress.leave()
    try:
        if not run.problems:
            write_result(settings, blob)
        if settings.report:
            text = json.dumps(report(run), indent=2) + "\n"
            write_file(settings.report, text.encode())
    except CompileError as error:
        run.problems += error.problems
    if settings.explain:
        try:
            sys.stdout.writelines(line + "\n" for line in explain(run))
            sys.stdout.flush()
        except BrokenPipeError:
            abandon_stdout()
    for warning in run.warnings:
        say(f"{settings.model}: warning: {warning}")
    for problem in run.problems:
        say(problem.line(settings.model))
    return min((p.code for p in run.problems), default=OK)


def say(text: str) -> None:
    """A line on stderr; what a model says is never shown unescaped (FM04)."""
    print("".join(c if c.isprintable() else "?" for c in text), file=sys.stderr)


def list_ops(form: str) -> int:
    if form == "json":
        print(json.dumps(op_entries(), indent=2))
    else:
        print("\n".join(op_lines()))
    return OK


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Exit code of qbcompile; argv without the program's name."""
    parser = options.parser(__version__)
    try:
        args: Any = parser.parse_args(argv)
        if args.list_ops:
            return list_ops(args.list_ops)
        settings = options.settings(args)
    except options.UsageError as error:
        say(f"qbcompile: error[{USAGE}]: {error}")
        return USAGE
    except argparse.ArgumentError as error:
        say(f"qbcompile: error[{USAGE}]: {error}")
        return USAGE
    except SystemExit as stop:  # --help, --version
        return int(stop.code or 0)
    except CompileError as error:
        for problem in error.problems:
            say(f"qbcompile: error[{problem.code}]: {problem.text}")
        return error.code
    return run_compiler(settings)
