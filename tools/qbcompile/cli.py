# SPDX-License-Identifier: MIT
"""The command qbcompile: options, passes in order, exit codes (section 15).

Every option that is listed works; another one is a usage error. Data go to
stdout, words to stderr. A refused model leaves no file and never touches an
existing one (QE04).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import shlex
import sys
import time
from typing import Any, Optional, Sequence

import numpy as np

from . import __version__, canon, container, emit, files, fold, fuse, load, lower
from . import options
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
                files.say(f"{self.name}: {now - self.since:.3f} s")
        self.name, self.since = name, now
        if self.live and name and now - self.start > SLOW:
            share = 100 * (options.PASSES.index(name) if name in options.PASSES else 0)
            files.tell(f"\r{share // len(options.PASSES):3} % {name:<10}")
            self.shown = True

    def leave(self) -> None:
        self.enter("")
        if self.shown:
            files.tell("\r" + " " * 20 + "\r")


def read_model(name: str) -> tuple[bytes, Optional[pathlib.Path]]:
    """The model's bytes and the folder of its external data; `-` is stdin."""
    try:
        if name != "-":
            data = files.read_regular(name, load.MAX_FILE)
            return data, pathlib.Path(name).parent
        return files.read_stdin(load.MAX_FILE), None
    except files.FileError as error:
        raise fail(INPUT, f"cannot be read: {error.reason}") from None


def check_external(
    model: Any, folder: Optional[pathlib.Path], settings: Settings
) -> None:
    """Files that the model names are read, too: no result may replace one."""
    inputs = [
        (f"the data of tensor '{tensor}'", path)
        for tensor, path in load.external_files(model, folder)
    ]
    try:
        files.check_apart(inputs, settings.written)
    except files.Clash as error:
        settings.report = ""
        raise fail(USAGE, str(error)) from None


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
        model = load.parse(data)
        check_external(model, folder, settings)
        graph = load.build(model, folder, settings.sizes)
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
    graph.warnings += emit.needs(result)
    try:
        blob = container.write(result)
    except ValueError as error:
        raise fail(LIMIT, f"cannot be stored: {error}") from None
    progress.enter("validate")
    warning = emit.verify(blob)
    graph.warnings += [warning] if warning else []
    run.result, run.file_bytes = result, len(blob)
    return blob


def write_results(settings: Settings, run: Run, blob: bytes) -> None:
    """The container, if there is one, and the report."""
    results: list[tuple[files.Name, bytes]] = []
    try:
        if not run.problems and settings.output == "-":
            files.put(blob)
        elif not run.problems:
            results.append((settings.output, blob))
        if settings.report:
            text = json.dumps(report(run), indent=2) + "\n"
            results.append((settings.report, text.encode()))
        files.write_all(results)
    except files.FileError as error:
        raise fail(OUTPUT, f"{error.name}: cannot be written: {error.reason}") from None


def show_fates(run: Run) -> None:
    """--explain. A reader who has seen enough is no error."""
    try:
        files.put("".join(line + "\n" for line in explain(run)))
    except files.FileError as error:
        if not error.broken_pipe:
            raise fail(OUTPUT, f"{error.name}: {error.reason}") from None


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
        write_results(settings, run, blob)
    except CompileError as error:
        run.problems += error.problems
    if settings.explain:
        try:
            show_fates(run)
        except CompileError as error:
            run.problems += error.problems
    for warning in run.warnings:
        files.say(f"{settings.model}: warning: {warning}")
    for problem in run.problems:
        files.say(problem.line(settings.model))
    return min((p.code for p in run.problems), default=OK)


def list_ops(form: str) -> int:
    lines = [json.dumps(op_entries(), indent=2)] if form == "json" else op_lines()
    files.put("".join(f"{line}\n" for line in lines))
    return OK


def run_arguments(argv: Sequence[str]) -> int:
    """Exit code for these arguments."""
    parser = options.parser(__version__)
    try:
        args: Any = parser.parse_args(options.join_lists(argv))
        if args.list_ops:
            return list_ops(args.list_ops)
        settings = options.settings(args)
    except (options.UsageError, argparse.ArgumentError) as error:
        files.say(f"qbcompile: error[{USAGE}]: {error}")
        return USAGE
    except SystemExit as stop:  # --help, --version
        return int(stop.code or 0)
    except CompileError as error:
        for problem in error.problems:
            files.say(f"qbcompile: error[{problem.code}]: {problem.text}")
        return error.code
    return run_compiler(settings)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Exit code of qbcompile; argv without the program's name."""
    arguments = sys.argv[1:] if argv is None else argv
    return files.run_tool(lambda: run_arguments(arguments))
